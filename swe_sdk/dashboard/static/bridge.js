// Links, forms and keys of the page become messages to the server; pages that it sends are laid over the one that is
// shown, so that focus, scroll positions, selections and open menus stay where they are.

const page = () => document.getElementById("page");
const PING_MS = 10000, SILENCE_MS = 25000;
let asked = 0, shown = 0, timer = 0, heard = Date.now();

// -- laying a page over another -------------------------------------------------------------------------------------

const keyOf = (node) => node.nodeType === 1 ? node.dataset.key || node.id || null : null;
const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function attributes(from, to) {
  const kept = from.nodeName === "DETAILS" || from.nodeName === "DIALOG" ? "open" : "";  // is for the viewer to say
  for (const {name, value} of to.attributes) {
    if (name !== kept && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const {name} of [...from.attributes]) if (name !== kept && !to.hasAttribute(name)) from.removeAttribute(name);
  if (from.nodeName === "INPUT" && from !== document.activeElement) {
    from.checked = to.hasAttribute("checked");
    from.value = to.getAttribute("value") ?? (from.type === "checkbox" ? "on" : "");
  }
  if (from.nodeName === "OPTION") from.selected = to.hasAttribute("selected");
}

function morph(from, to) {
  if (from.nodeType !== 1) {
    if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
    return;
  }
  if (from.isEqualNode(to) && from.nodeName !== "FORM") return;
  if (from.nodeName === "TIME" && from.dataset.t === to.dataset.t && from.dataset.how === to.dataset.how) return;
  attributes(from, to);
  const keyed = new Map();
  for (const child of from.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const key = keyOf(wanted);
    const found = key ? keyed.get(key) : null;
    if (found && alike(found, wanted)) {
      keyed.delete(key);
      if (found === at) at = at.nextSibling; else from.insertBefore(found, at);
      morph(found, wanted);
    } else if (at && alike(at, wanted) && !key) {
      const next = at.nextSibling;
      morph(at, wanted);
      at = next;
    } else {
      from.insertBefore(wanted, at);
    }
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

function show(html) {
  const next = document.createElement("template");
  next.innerHTML = html;
  const shell = page().cloneNode(false);
  shell.append(next.content);
  const focused = document.activeElement;
  morph(page(), shell);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({preventScroll: true});  // it was moved
  tellTimes();
}

// -- times that grow ------------------------------------------------------------------------------------------------

const two = (n) => String(n).padStart(2, "0");
function span(s) {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(Math.floor(s % 60))} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s % 3600 / 60))} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}
function rough(s) {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}
function tellTimes() {
  const now = Date.now() / 1000;
  for (const node of document.querySelectorAll("time[data-t]")) {
    const t = Number(node.dataset.t), d = new Date(t * 1000), gone = now - t;
    const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
    const full = `${day} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
    const text = node.dataset.how === "when" ? full
      : node.dataset.how === "since" ? span(Math.max(0, gone))
      : gone < 0 ? `in ${rough(-gone)}` : `${rough(gone)} ago`;
    if (node.textContent !== text) node.textContent = text;
    if (node.title !== full) node.title = full;
  }
}

// -- asking for another state ---------------------------------------------------------------------------------------

function query(form) {
  const pairs = [...new FormData(form)].filter(([, value]) => String(value).trim() !== "");
  return new URLSearchParams(pairs).toString();
}

function start(model) {
  const mount = document.getElementById("bridge");

  function go(search, {push = true, top = false} = {}) {
    const wanted = search.replace(/^\?/, "");
    clearTimeout(timer);  // what is being typed is of the page that is left
    if (push) history.pushState({}, "", `?${wanted}`);
    document.body.dataset.busy = "";
    asked += 1;
    if (top) window.scrollTo(0, 0);
    model.send_msg({query: wanted, n: asked});
  }

  model.on("msg:custom", (message) => {
    heard = Date.now();
    if (message.pong) return;
    model.send_msg({got: message.n});
    if (message.n < asked || message.n < shown) return;
    shown = message.n;
    delete document.body.dataset.busy;
    show(message.html);
    document.title = message.title;
    document.body.dataset.shown = message.n;
    if (message.answer) goHere();
  });

  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const target = event.target.closest("a,button,label,input,summary,tr[data-href]");
    if (!target) return;
    if (target.matches("button[data-copy]")) { copy(target); return; }
    if (target.matches("button[data-png]")) { savePng(target.dataset.png); return; }
    if (target.matches("button[data-theme-switch]")) { switchTheme(); return; }
    if (target.matches("button[data-help]")) { document.getElementById("help").showModal(); return; }
    const href = target.matches("tr") ? target.dataset.href : target.getAttribute("href");
    if (!href || !href.startsWith("?") || target.hasAttribute("download")) return;
    if (target.matches("tr") && String(getSelection())) return;
    event.preventDefault();
    const other = new URLSearchParams(href).get("view") !== new URLSearchParams(location.search).get("view");
    go(href, {top: other});
  });

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.filters")) return;
    event.preventDefault();
    clearTimeout(timer);
    go(query(event.target));
    for (const box of event.target.querySelectorAll("[data-clear] input[type=text]")) box.value = "";
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form.filters");
    if (!form || event.target.closest("[data-enter]")) return;
    clearTimeout(timer);
    const wait = event.target.type === "search" ? 100 : 0;
    timer = setTimeout(() => go(query(form)), wait);
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
  window.addEventListener("popstate", () => go(location.search, {push: false}));
  document.addEventListener("keydown", keys);
  setInterval(tellTimes, 1000);
  setInterval(() => {
    try { model.send_msg({ping: true}); } catch { /* the socket is closed */ }
    retry();
  }, PING_MS);
  document.body.dataset.ready = "";
  mount.hidden = true;
}

// A server that was started again knows nothing of this page, which is therefore loaded anew: its URL is all that it is.
async function retry() {
  const slept = document.hidden || Date.now() - heard < SILENCE_MS;
  document.body.toggleAttribute("data-lost", Date.now() - heard >= SILENCE_MS);
  if (slept) return;
  try {
    if ((await fetch(location.href, {cache: "no-store"})).status < 500) location.reload();
  } catch { /* not there yet */ }
}

// -- keys -----------------------------------------------------------------------------------------------------------

function keys(event) {
  const typing = event.target.matches("input:not([type=checkbox]),select,textarea");
  if (event.key === "Escape") {
    document.querySelectorAll("details.menu[open]").forEach((menu) => { menu.open = false; });
    if (typing) event.target.blur();
    return;
  }
  if (typing || event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "j" || event.key === "k") { event.preventDefault(); step(event.key === "j" ? 1 : -1); return; }
  const pick = event.key === "?" ? document.querySelector("[data-help]")
    : event.key === "t" ? document.querySelector("[data-theme-switch]")
    : document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`);
  if (!pick) return;
  event.preventDefault();
  if (pick.matches("input")) { pick.focus(); pick.select(); } else pick.click();
}

function step(by) {
  const rows = [...document.querySelectorAll("#page tr[data-href] > td:first-child a")];
  const at = rows.indexOf(document.activeElement);
  const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({block: "nearest"});
}

// -- taking things away ---------------------------------------------------------------------------------------------

async function copy(button) {
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // pages that are not of this machine and not encrypted have no clipboard
    const box = document.createElement("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  }
  const label = button.textContent;
  button.textContent = "copied";
  setTimeout(() => { button.textContent = label; }, 1200);
}

const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family",
  "font-weight", "text-anchor", "dominant-baseline"];

async function savePng(id) {
  const chart = document.getElementById(id);
  const {width, height} = chart.getBoundingClientRect();
  const copied = chart.cloneNode(true);
  const originals = [chart, ...chart.querySelectorAll("*")];
  [copied, ...copied.querySelectorAll("*")].forEach((node, index) => {
    const style = getComputedStyle(originals[index]);
    for (const name of DRAWN) node.style.setProperty(name, style.getPropertyValue(name));
  });
  copied.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copied.setAttribute("width", width);
  copied.setAttribute("height", height);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copied));
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  const paint = canvas.getContext("2d");
  paint.scale(2, 2);
  paint.fillStyle = getComputedStyle(document.body).backgroundColor;
  paint.fillRect(0, 0, width, height);
  paint.drawImage(image, 0, 0);
  const link = document.createElement("a");
  link.download = `${id}.png`;
  link.href = canvas.toDataURL("image/png");
  link.click();
}

function switchTheme() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("swe-sdk-theme", root.dataset.theme); } catch { /* a frame may have no storage */ }
}

// The line that was asked for, of a text that scrolls by itself, on a page that may have to be scrolled as well.
function goHere() {
  const here = document.querySelector("#page [data-here]");
  const box = here?.closest(".text");
  if (!box) return;
  box.scrollTop = here.offsetTop - box.offsetTop - box.clientHeight / 3;
  here.scrollIntoView({block: "nearest"});
}

export function render({model}) {
  tellTimes();
  goHere();
  start(model);
  return document.createElement("span");
}
