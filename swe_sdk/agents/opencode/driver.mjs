// Runs in the box, on the runtime that is within OpenCode's own program (BUN_BE_BUN): drives one session of its server.
//
// It reads one JSON object from standard input: {workdir, session, prompt, title, seen}. A session that is new is told
// the prompt. One that is there goes on where it stands, with nothing added to its history: that is what an empty
// message does, and why this is not `opencode run`, which demands a further word. It prints JSON lines as `opencode run
// --format json` does, from the part after `seen` on, and ends as the server's loop ends.

import { randomUUID } from "node:crypto"

const asked = JSON.parse(await new Response(Bun.stdin.stream()).text())
const password = randomUUID()
const { BUN_BE_BUN: _, ...env } = process.env
const address = ["--hostname", "127.0.0.1", "--port", "0"]
const server = Bun.spawn([process.execPath, "serve", ...address, "--pure", "--print-logs", "--log-level", "ERROR"], {
  cwd: asked.workdir,
  env: { ...env, OPENCODE_SERVER_PASSWORD: password },
  stdin: "ignore",
  stdout: "pipe",
  stderr: "inherit",
})
const base = await listening()
const headers = {
  authorization: `Basic ${Buffer.from(`opencode:${password}`).toString("base64")}`,
  "content-type": "application/json",
}
const told = new Set()
let session = asked.session
let isReplaying = Boolean(asked.session && asked.seen)
let failed = false

await Promise.race([drive().catch(broken), server.exited])
if (server.exitCode !== null || server.signalCode !== null) {
  // by itself: whoever has started us learns what became of it
  if (server.signalCode) process.kill(process.pid, server.signalCode)
  process.exit(server.exitCode || 1)
}
server.kill("SIGKILL")
await server.exited
process.exit(failed ? 1 : 0)

async function drive() {
  const isOver = follow(await call("GET", "/event"))
  if (session) for (const message of await (await call("GET", `/session/${session}/message`)).json()) replay(message)
  else session = (await (await call("POST", "/session", { title: asked.title })).json()).id
  isReplaying = false
  say("session", {})
  const parts = asked.session ? [] : [{ type: "text", text: asked.prompt }]
  await call("POST", `/session/${session}/prompt_async`, { parts })
  await isOver
}

// It does not answer as it should: because it has ended, or for a reason that is told.
async function broken(error) {
  if (await Promise.race([server.exited.then(() => true), Bun.sleep(1000)])) return
  failed = true
  say("error", { error: { name: "ServerError", data: { message: String(error) } } })
}

async function listening() {
  const decoder = new TextDecoder()
  let said = ""
  for await (const piece of server.stdout) {
    said += decoder.decode(piece, { stream: true })
    const found = said.match(/listening on (http:\/\/\S+)/)
    if (found) return found[1]
  }
  process.exit((await server.exited) || 1)
}

async function call(method, path, body) {
  const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body), timeout: false })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer
}

async function follow(answer) {
  const decoder = new TextDecoder()
  let open = ""
  for await (const piece of answer.body) {
    open += decoder.decode(piece, { stream: true })
    const lines = open.split("\n")
    open = lines.pop()
    for (const line of lines) if (line.startsWith("data:") && heard(JSON.parse(line.slice(5)))) return
  }
}

// One event of the server; true when the session has come to its end.
function heard({ type, properties }) {
  if (type === "message.part.updated" && properties.part.sessionID === session) part(properties.part)
  if (type === "session.error" && properties.sessionID === session && properties.error) {
    failed = true
    say("error", { error: properties.error })
  }
  return type === "session.idle" && properties.sessionID === session
}

// What the session said before; what was told to nobody is told now.
function replay({ info, parts }) {
  for (const each of parts) {
    if (info.role === "assistant") part(each)
    if (each.id === asked.seen) isReplaying = false
  }
}

function part(each) {
  const kind = told.has(each.id) ? null : lineOf(each)
  if (!kind) return
  told.add(each.id)
  if (!isReplaying) say(kind, { part: each })
}

// The type of the line for a part that is complete.
function lineOf(each) {
  if (each.type === "tool" && ["completed", "error"].includes(each.state.status)) return "tool_use"
  if (each.type === "text" && each.time?.end) return "text"
  return { "step-start": "step_start", "step-finish": "step_finish" }[each.type]
}

function say(type, more) {
  process.stdout.write(JSON.stringify({ type, timestamp: Date.now(), sessionID: session, ...more }) + "\n")
}
