"""CSI7xx: errors, secrets in texts, and calls that never end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.conform.book.exchange import Exchange
from mooring.conform.book.past import Aborted, Past
from mooring.conform.book.rule import Breach, Rule
from mooring.conform.book.subject import changed_by
from mooring.csi.redact import secret_values
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, LOST_TEXT

NO_CODE = Rule(
    "CSI701",
    "an error without a code",
    "An error SHOULD have a code that says what went wrong; Unknown is a code of gRPC's, and says nothing.",
    "error-scheme",
    "Unknown means to Kubernetes that the call failed for good: it forgets the volume that the call may have "
    "made, or tries another node.",
    "Answer each error with a code. Go: a bare `return nil, err` has none; return "
    "`status.Error(codes.Internal, err.Error())`, or the code "
    "that fits. Python: catch the exception, and call `context.abort(StatusCode.INTERNAL, text)`; one that "
    "gets through has none. "
    "Node: `callback(new Error(text))` has none; call back with `{ code: grpc.status.INTERNAL, details: text }`.",
)
SECRET_TOLD = Rule(
    "CSI702",
    "a secret stands in an error",
    "No secret of a request SHOULD stand in an error or a log.",
    "secrets-requirements",
    "The text goes to an Event of the claim or the pod, which everybody in the namespace reads.",
    "Keep secrets out of command lines and URLs whose failure you pass on; strip them from texts.",
)
SECRET_ANSWERED = Rule(
    "CSI703",
    "a secret stands in an answer",
    "No secret of a request SHOULD stand in volume_context, publish_context or an id.",
    "secrets-requirements",
    "The PersistentVolume or VolumeAttachment keeps it, for everybody who may read these objects.",
    "Give the node its secrets by nodeStageSecretRef or nodePublishSecretRef of the class.",
)
SILENT = Rule(
    "CSI704",
    "a call is not answered in time",
    "A call SHOULD be answered within its deadline, since CSI lets a caller choose it; work that takes "
    "longer goes on, and the repeated call is answered with Aborted meanwhile.",
    "timeouts",
    "Kubernetes gives up, doubles the wait, and asks again; it can't tell whether the work was done.",
    "Answer Aborted for work that goes on in the background, and OK when it is done; give your own calls a "
    "deadline below the caller's. A sidecar waits longer with --timeout. "
    "What a driver knows by itself, as its name, its capabilities and its node's id, it answers at once.",
)
STILL_ABORTED = Rule(
    "CSI705",
    "Aborted, and nothing is under way",
    "Aborted MUST say that another call for the same volume is under way; when that has ended, the call goes through.",
    "error-scheme",
    "Kubernetes asks again for ever, since Aborted asks it to.",
    "Free the volume's lock in a `finally` (Go: `defer`), also when the caller gave up.",
    "azuredisk and spectrum scale say Aborted as long as the backend works.",
)
NO_MESSAGE = Rule(
    "CSI706",
    "an answer that can't be read",
    "An OK MUST come with the message that CSI declares for the call.",
    "rpc-interface",
    "The sidecar takes it for a failure whose effect is unknown, and asks again.",
    "Generate the messages from CSI's csi.proto.",
)
DIED = Rule(
    "CSI707",
    "the connection broke in the middle of a call",
    "A call MUST be answered with a status of gRPC's.",
    "rpc-interface",
    "The kubelet starts the container again; whatever the call did is unknown until it is repeated.",
    "Look for the panic or exception in the driver's log; let no error of one call end the process.",
)
NO_TEXT = Rule(
    "CSI708",
    "an error without a text",
    "An error MUST have a text that tells people what went wrong.",
    "error-scheme",
    "The Event on the claim or pod is empty: nobody can tell why the volume is stuck.",
    "Say what failed, and what to do about it.",
)
REFUSED = Rule(
    "CSI709",
    "a call that must succeed fails",
    "A well-formed call whose capability is advertised MUST be carried out.",
    "error-scheme",
    "Kubernetes asks again for ever; the text stands in an Event of the claim or the pod.",
    "Read the error. InvalidArgument may ask for what the class of your driver has: give it with --parameter or "
    "--secrets-file. A device that is busy has a holder: a mount, an open file, a process that the driver left.",
)
REVIVED = Rule(
    "CSI710",
    "the driver does not start again",
    "A plugin MUST serve its socket whenever it is started, also after a kill at any moment.",
    "supervised-lifecycle-management",
    "The container restarts for ever (CrashLoopBackOff), and no volume of the driver moves any more.",
    "Write what you keep to a second file and rename it over the first, and remove a socket that a killed "
    "process has left.",
)
NEVER_READY = Rule(
    "CSI711",
    "the driver is never ready",
    "Probe MUST answer ready, or leave `ready` out, unless the plugin is not healthy: soon after the "
    "driver has started.",
    "probe",
    "The livenessprobe restarts the container again and again, and sidecars wait for the driver before they begin.",
    "Answer true once the driver can serve calls; where something is missing for good, answer "
    "FailedPrecondition and say what.",
)

RULES: Final = (NO_CODE, SECRET_TOLD, SECRET_ANSWERED, SILENT, STILL_ABORTED, NO_MESSAGE, DIED, NO_TEXT)
ASKED: Final = (REFUSED, REVIVED, NEVER_READY)

ABORTED_MAX: Final = 3
"""So often in a row; once may be the end of a call that nobody here saw."""
ABORTED_S: Final = 3.0
"""For so long, where somebody tells the time: a driver ends what a caller has given up, and may be slow on a busy
machine.
"""
LATE_SHARE: Final = 0.8
"""A call whose deadline came after less than this share of its time was cut short by a machine that did not let its
caller run.
"""
_SECRET_LENGTH_MIN: Final = 4
"""A shorter secret can't be told from other text."""


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    error = exchange.error
    if error is None:
        yield from _answer(exchange)
    elif error.answered:
        yield exchange.breaks(NO_MESSAGE, error.message)
    elif error.code == Code.DEADLINE_EXCEEDED and error.message == DEADLINE_TEXT:
        if not error.unsent and not _cut_short(exchange):
            yield exchange.breaks(SILENT, f"no answer within {exchange.limit_s:g} s")
    elif error.code == Code.UNAVAILABLE and error.message == LOST_TEXT:
        yield exchange.breaks(DIED, error.message)
    elif not error.unsent:
        yield from _error(exchange, error.code, error.message)
    yield from _aborted(exchange, past)


def _cut_short(exchange: Exchange) -> bool:
    if exchange.began_s is None or exchange.ended_s is None:
        return False
    return exchange.ended_s - exchange.began_s < LATE_SHARE * exchange.limit_s


def _error(exchange: Exchange, code: int, text: str) -> Iterator[Breach]:
    if code == Code.UNKNOWN or code not in set(Code):
        yield exchange.breaks(NO_CODE, str(exchange.error))
    if any(secret in text for secret in _secrets(exchange)):
        yield exchange.breaks(SECRET_TOLD, "a secret of the request stands in the error's text")
    if not text.strip() and code != Code.UNIMPLEMENTED:
        yield exchange.breaks(NO_TEXT, f"{exchange.error}")


def _answer(exchange: Exchange) -> Iterator[Breach]:
    secrets = _secrets(exchange)
    if secrets and (text := str(exchange.response)) and any(secret in text for secret in secrets):
        yield exchange.breaks(SECRET_ANSWERED, "a secret of the request stands in the answer")


def _secrets(exchange: Exchange) -> list[str]:
    return [secret for secret in secret_values(exchange.request) if len(secret) >= _SECRET_LENGTH_MIN]


def _aborted(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if (subject := changed_by(exchange.rpc, exchange.request)) is None:
        return
    key = exchange.where, exchange.rpc.attribute, subject.name
    if exchange.code != Code.ABORTED:
        past.aborted.drop(key)
    elif exchange.alone:
        before = past.aborted.get(key) or Aborted(0, exchange.ended_s)
        now = past.aborted[key] = Aborted(before.times + 1, before.since_s)
        lasted_s = ABORTED_S if now.since_s is None or exchange.ended_s is None else exchange.ended_s - now.since_s
        if now.times >= ABORTED_MAX and lasted_s >= ABORTED_S:
            yield exchange.breaks(
                STILL_ABORTED, f"{now.times} times in a row, with no other call for it under way: {exchange.error}"
            )
