"""One colour, one sign and one label for each word that reprs, plots and the dashboard show. Pure data.

The hues start from the set of Okabe and Ito (*Color Universal Design*, 2008), darkened for a white page and lightened
for a black one. Of every style, ``light`` and ``dark`` fill areas (contrast of at least 3:1 to the page), and
``light_text`` and ``dark_text`` write words (at least 4.5:1, WCAG 2.2, 1.4.3 and 1.4.11). The colours of one table can
be told apart with any of the three kinds of colour blindness; a glyph and a label say it without any colour.

Look words up with :func:`style_of`: it knows what to show for one that is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Theme = Literal["light", "dark"]


class Style(NamedTuple):
    """How a word is shown. Colours are ``#RRGGBB``; the glyph is one character of the font DejaVu Sans."""

    label: str
    glyph: str
    light: str
    dark: str
    light_text: str
    dark_text: str

    def fill(self, theme: Theme = "light") -> str:
        """The colour of areas."""
        return self.light if theme == "light" else self.dark

    def text(self, theme: Theme = "light") -> str:
        """The colour of words."""
        return self.light_text if theme == "light" else self.dark_text

    def named(self, label: str, glyph: str | None = None) -> Style:
        """The same colours for another word."""
        return self._replace(label=label, glyph=self.glyph if glyph is None else glyph)


class Page(NamedTuple):
    """The colours around: of the page, of what is written on it, of what may recede, of lines, of an empty tile."""

    background: str
    foreground: str
    muted: str
    grid: str
    empty: str


PAGES: Mapping[Theme, Page] = {
    "light": Page("#FFFFFF", "#1B1B1B", "#666666", "#DDDDDD", "#F4F4F4"),
    "dark": Page("#111111", "#EDEDED", "#9A9A9A", "#3A3A3A", "#1E1E1E"),
}

_GREEN = Style("", "●", "#007A50", "#1FAE74", "#007A50", "#1FAE74")
_ORANGE = Style("", "●", "#D9650A", "#EE5A24", "#B65508", "#EE5A24")
_PURPLE = Style("", "●", "#A2488F", "#CC66BB", "#A2488F", "#CC66BB")
_BLUE = Style("", "●", "#0A4DB0", "#3377FF", "#0A4DB0", "#377AFF")
_SKY = Style("", "●", "#2A98D6", "#9AD4FF", "#227AAB", "#9AD4FF")
_BROWN = Style("", "●", "#5C3A00", "#E8C020", "#5C3A00", "#E8C020")
_VIOLET = Style("", "●", "#8200FA", "#A096FA", "#8200FA", "#A096FA")
_GREY = Style("", "●", "#8F8F8F", "#727272", "#707070", "#828282")
_INK = Style("", "●", "#2B2B2B", "#EBEBE6", "#2B2B2B", "#EBEBE6")

STATUS: Mapping[str, Style] = {
    "resolved": _GREEN.named("resolved", "✓"),
    "unresolved": _ORANGE.named("unresolved", "✗"),
    "masked": _PURPLE.named("masked", "⊘"),
    "stopped": _INK.named("stopped", "■"),
    "running": _BLUE.named("running", "▶"),
    "parked": _SKY.named("parked", "◫"),
    "retrying": _BROWN.named("retrying", "↻"),
    "queued": _GREY.named("queued", "○"),
}
"""Of rollouts and outcomes: the four ends first."""

ROLLOUT: Mapping[str, Style] = {**STATUS, "cut off": STATUS["stopped"].named("cut off")}
"""The same, as :mod:`swe_sdk.store.standing` says it."""

VERDICT: Mapping[str, Style] = {name: STATUS[name] for name in ("resolved", "unresolved", "masked")}
"""The three words of an Outcome."""

BUDGET: Mapping[str, Style] = {
    "spent": _BLUE.named("spent", "■"),
    "parked": _SKY.named("parked", "◫"),
    "remaining": _GREY.named("remaining", "□"),
    "queued": _INK.named("queued", "○"),
}
"""What becomes of a budget. Parked and queued seconds are never charged to it."""

STAGE: Mapping[str, Style] = {
    "seed": _GREY.named("seed", "◔"),
    "invoke_agent": _BLUE.named("invoke_agent", "▶"),
    "close_agent": _ORANGE.named("close_agent", "■"),
    "verify": _GREEN.named("verify", "✓"),
    "return": _PURPLE.named("return", "↩"),
}
"""The stages of a rollout, in their order."""

_SET_UP, _PATCHING = _GREY, _SKY
TIMING: Mapping[str, Style] = {
    "admission": _SET_UP.named("admission"),
    "environment": _SET_UP.named("environment"),
    "create": _SET_UP.named("create"),
    "reset": _PATCHING.named("reset"),
    "apply": _PATCHING.named("apply"),
    "restore": _PATCHING.named("restore"),
    "test_patch": _PATCHING.named("test_patch"),
    "prelude": _PATCHING.named("prelude"),
    "tests": _GREEN.named("tests"),
    "results": _BROWN.named("results"),
    "parse": _BROWN.named("parse"),
    "second_run": _GREEN.named("second_run"),
    "control": _GREEN.named("control"),
    "teardown": _INK.named("teardown"),
}
"""What ``Outcome.timings_s`` counts, in order: the stages of a grade, and their parts that are timed by themselves.

Neighbours of one kind share a colour.
"""
_PARTS_OF_STAGES = ("restore", "results", "second_run", "control")

MASK_STAGE: Mapping[str, Style] = {
    "seed": STAGE["seed"],
    "agent": STAGE["invoke_agent"].named("agent"),
    "close_agent": STAGE["close_agent"],
    **{name: style for name, style in TIMING.items() if name not in _PARTS_OF_STAGES},
    "verify": STAGE["verify"],
    "return": STAGE["return"],
}
"""Where a failure can happen (:data:`swe_sdk.model.policy.Stage`), in the order of a rollout."""

SNAPSHOT: Mapping[str, Style] = {
    "kept": _GREEN.named("kept", "●"),
    "released": _GREY.named("released", "○"),
    "leaked": _BROWN.named("leaked", "▲"),
    "violated": _ORANGE.named("violated", "✗"),
}
"""*Leaked*: still there though no kept checkpoint needs it; *violated*: released though one does."""

RUN: Mapping[str, Style] = {
    "running": STATUS["running"],
    "finished": _GREEN.named("finished", "✓"),
    "stopped": STATUS["stopped"],
    "failed": _ORANGE.named("failed", "✗"),
    "killed": _PURPLE.named("killed", "⊘"),
}
"""How a run ended. *Killed*: it said nothing about its end, and none of its writers lives."""

CHECKPOINT: Mapping[str, Style] = {
    "kept": _GREEN.named("kept", "●"),
    "released": _GREY.named("released", "○"),
    "saving": _BLUE.named("saving", "◔"),
    "incomplete": _ORANGE.named("incomplete", "✗"),
}

CHANGE: Mapping[str, Style] = {
    "gained": _GREEN.named("gained", "▲"),
    "lost": _ORANGE.named("lost", "▼"),
    "same": _GREY.named("same", "="),
    "masked": _PURPLE.named("masked", "⊘"),
    "only in a": _SKY.named("only in a", "◁"),
    "only in b": _INK.named("only in b", "▷"),
}
"""What became of a task from one run to another."""

HEALTH: Mapping[str, Style] = {
    "healthy": _GREEN.named("healthy", "✓"),
    "unhealthy": _ORANGE.named("unhealthy", "✗"),
    "unknown": _PURPLE.named("unknown", "⊘"),
}

TEST: Mapping[str, Style] = {
    "PASSED": _GREEN.named("PASSED", "✓"),
    "XFAIL": _SKY.named("XFAIL", "✓"),
    "FAILED": _ORANGE.named("FAILED", "✗"),
    "ERROR": _PURPLE.named("ERROR", "✗"),
    "SKIPPED": _GREY.named("SKIPPED", "○"),
    "MISSING": _INK.named("MISSING", "∅"),
}

MASK_GROUP: Mapping[str, Style] = {
    "box": _ORANGE.named("sandbox", "◌"),
    "machine": _BROWN.named("machine", "⚙"),
    "limit": _SKY.named("limit reached", "◷"),
    "agent": _BLUE.named("agent", "▶"),
    "model": _PURPLE.named("model", "☁"),
    "task": _VIOLET.named("task", "☐"),
    "grading": _INK.named("grading", "✎"),
    "people": _GREY.named("somebody", "■"),
}
"""What a mask has to do with: what to mend. None is green, which says everywhere else that something went well."""

_KINDS_BY_GROUP: Mapping[str, tuple[str, ...]] = {
    "box": ("capability_missing", "create_failed", "provider_unavailable", "sandbox_lost", "transfer_failed"),
    "machine": ("host_oom", "lost_worker", "missing_tool", "no_space"),
    "limit": ("budget_spent", "context_window", "disk_limit", "memory_limit", "step_limit", "timeout"),
    "agent": ("agent_crashed", "agent_failed", "patch_unappliable", "patch_unavailable", "runner_files"),
    "model": ("model_failed", "model_unreachable"),
    "task": ("environment_failed", "invalid_task", "prelude_failed", "reset_failed", "test_patch_failed"),
    "grading": (
        *("evaluator_failed", "internal_error", "results_disagree", "unparseable"),
        *("verifier_failed", "verifier_unreachable"),
    ),
    "people": ("cancelled",),
}
MASK_GROUP_OF: Mapping[str, str] = {kind: group for group, kinds in _KINDS_BY_GROUP.items() for kind in kinds}
MASK_KIND: Mapping[str, Style] = {
    kind: MASK_GROUP[group].named(kind.replace("_", " ")) for kind, group in sorted(MASK_GROUP_OF.items())
}
"""Every kind of failure of :data:`swe_sdk.model.policy.FailureKind`, in the colour of its group."""

UNKNOWN = _GREY.named("unknown", "·")
"""For a word of an imported run, or of a newer version."""


def style_of(table: Mapping[str, Style], word: str | None) -> Style:
    """The style of a word; one that the table does not have is grey and keeps its name."""
    if word is None:
        return UNKNOWN
    return table.get(word) or UNKNOWN.named(word)
