"""A shell command as an objective: parameters go in by placeholders, a value comes out by printing.

No value can become part of a program. Without a shell the template is split into arguments first,
and values are put into these. With `shell=True` the shell sees the template with a variable in each
value's place, and a shell does not read as a program what a variable holds.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import json
import math
import os
import re
import reprlib
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from ebo.study.evaluation.descendants import adopt_orphans, children
from ebo.study.evaluation.workers import inside, signal_name

TAIL = 1_000  # characters kept of standard error
OUTPUT = 2**20  # bytes of standard output that are looked at, from its end

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_MARK = re.compile("\ue000(\\d+)\ue001")  # a placeholder's number, while a template is split
_OPERATOR = re.compile(r"[|<>&;()`]|\$(?=[\w({])")
_adopted: set[int] = set()  # what commands left behind, which is this worker's child now
_running: set[int] = set()  # process groups of commands that nobody else would kill


class CommandError(RuntimeError):
    """The command failed, or printed no value: in one line, and the tail of standard error."""

    def __init__(self, summary: str, stderr: str = "") -> None:
        super().__init__(f"{summary}; standard error ends with:\n{stderr}" if stderr else summary)
        self.summary, self.stderr = summary, stderr


@dataclass(frozen=True)
class Command:
    """A command with `{name}` placeholders, called with a dict of parameters; it prints its value.

    template: such as "python train.py --rate {rate} --layers {layers}". Its words are split as a
        shell does, but there is none: no pipes, redirections, variables or wildcards. `{{` and `}}`
        stand for braces. A value that begins with "-" looks like an option to most programs:
        `--name={name}` is safer than `--name {name}`.
    value: "last line", the last line of standard output that is not empty, as a number; "json",
        standard output (or else its last line) as JSON, a number; or "json:key", that key of an
        object.
    shell: run the template by /bin/sh. Placeholders stand outside quotes: they need none.

    Floats are given with all their digits, ints as ints, anything else by `str`. The command works
    in the current directory with nothing on standard input. It fails if its exit status is not 0
    or if there is no number where it should be, and the message has the tail of standard error.
    Whatever it leaves running in the background is killed when its worker ends. What has begun a
    session of its own, by `setsid` or as a daemon, goes on then, except on Linux after a time-out
    or Ctrl-C in a worker process: that kills all that the worker's commands have started. Where
    this process is killed itself (kill -9), or runs commands without worker processes, such a
    session goes on in any case.
    """

    template: str
    value: str = field(default="last line", kw_only=True)
    shell: bool = field(default=False, kw_only=True)
    names: tuple[str, ...] = field(init=False)  # of the placeholders, in order, each once
    _words: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.template, str) or not self.template.strip():
            raise ValueError(f"the command is {self.template!r}; give a string such as 'run {{x}}'")
        known = isinstance(self.value, str) and re.fullmatch("last line|json|json:.+", self.value)
        if not known:
            raise ValueError(f"value is {self.value!r}; give 'last line', 'json' or 'json:key'")
        if not isinstance(self.shell, bool):
            raise ValueError(f"shell is {self.shell!r}; give True or False")
        if re.search("[\ue000\ue001\0]", self.template):
            raise ValueError("the command has NUL or private characters; leave them out")
        marked, names = _marked(self.template)
        object.__setattr__(self, "names", names)
        split = _shell_script if self.shell else _split
        object.__setattr__(self, "_words", split(marked, names))

    def check(self, names: Iterable[str]) -> None:
        """ValueError unless every placeholder is one of these parameters."""
        allowed = list(names)
        for name in self.names:
            if name not in allowed:
                close = difflib.get_close_matches(name, allowed, n=1)
                hint = f"Did you mean {{{close[0]}}}? " if close else ""
                raise ValueError(
                    f"the command has {{{name}}}, which is not a parameter. {hint}The parameters "
                    f"are {', '.join(allowed)}; for literal braces write {{{{ and }}}}"
                )

    def arguments(self, parameters: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
        """The arguments to run with these parameters, and variables to add to the environment."""
        if not isinstance(parameters, Mapping):
            raise TypeError(
                f"a command takes a dict of parameters, not a {type(parameters).__name__}; "
                f"use a space of named parameters"
            )
        missing = [name for name in self.names if name not in parameters]
        if missing:
            raise ValueError(f"no value for {{{missing[0]}}}; give {', '.join(self.names)}")
        texts = [_text(parameters[name]) for name in self.names]
        if self.shell:
            variables = {_variable(i): text for i, text in enumerate(texts)}
            return ["/bin/sh", "-c", self._words[0]], variables
        return [_MARK.sub(lambda mark: texts[int(mark[1])], word) for word in self._words], {}

    def __call__(self, parameters: Mapping[str, Any]) -> float:
        """Run it with these parameters; the value that it prints."""
        arguments, variables = self.arguments(parameters)
        # Files, not pipes: what it leaves in the background may hold these open for ever.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = _run(arguments, variables, out, err)
            told = _tail(err, 4 * TAIL).strip()[-TAIL:]
            if status != 0:
                last = f": {told.splitlines()[-1][:200]}" if told else ""
                raise CommandError(f"{_ended(status)}{last}", told)
            try:
                return self._value(_tail(out, OUTPUT))
            except CommandError as error:
                raise CommandError(error.summary, told) from None

    def _value(self, output: str) -> float:
        lines = [line for line in output.splitlines() if line.strip()]
        if not lines:
            raise CommandError("it printed nothing on standard output; print the value")
        last = lines[-1].strip()
        if self.value != "last line":
            return self._entry(output, last)
        try:
            return float(last)
        except ValueError:
            raise CommandError(
                f"the last line of its output is {reprlib.repr(last)}; print a number there"
            ) from None

    def _entry(self, output: str, last: str) -> float:
        try:
            found = _first_of(json.loads, (output, last))
        except (ValueError, RecursionError):
            raise CommandError(
                f"its output is not JSON; the last line is {reprlib.repr(last)}"
            ) from None
        key = self.value.removeprefix("json").removeprefix(":")
        if key:
            if not isinstance(found, dict) or key not in found:
                raise CommandError(f"its JSON is {reprlib.repr(found)}, without the key {key!r}")
            found = found[key]
        if isinstance(found, bool) or not isinstance(found, int | float):
            hint = "; name the value's key by value='json:key'" if isinstance(found, dict) else ""
            raise CommandError(f"its JSON is {reprlib.repr(found)}, not a number{hint}")
        try:
            return float(found)
        except OverflowError:
            return math.inf if found > 0 else -math.inf


# The template.


def _marked(template: str) -> tuple[str, tuple[str, ...]]:
    """The template with numbered marks in its placeholders' place, and their names."""
    names: list[str] = []

    def mark(token: re.Match[str]) -> str:
        if token[0] in ("{{", "}}"):
            return token[0][0]
        if not token[1]:
            raise ValueError(
                f"the command has {token[0]!r} at character {token.start()}, without a name; "
                f"write {{name}} for a parameter, {{{{ and }}}} for braces: {template}"
            )
        if token[1] not in names:
            names.append(token[1])
        return f"\ue000{names.index(token[1])}\ue001"

    return _TOKEN.sub(mark, template), tuple(names)


def _split(marked: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command without a shell."""
    try:
        words = shlex.split(marked)
        for token in _operators(marked):
            raise ValueError(
                f"it has {token!r}, which only a shell understands; "
                f"set shell=True, or put it in quotes if it is meant literally"
            )
    except ValueError as error:
        shown = _MARK.sub(lambda mark: f"{{{names[int(mark[1])]}}}", marked)
        raise ValueError(f"the command {shown!r}: {error}") from None
    return tuple(words)


def _operators(marked: str) -> list[str]:
    """What stands outside quotes and means something to a shell, but not to us."""
    return [o for text in _outside_quotes(marked) for o in re.findall(_OPERATOR, text)]


def _outside_quotes(text: str) -> list[str]:
    """The pieces of a shell's text that are neither quoted nor escaped."""
    pieces, quote, start, i = [], "", 0, 0
    while i < len(text):
        c = text[i]
        if c == "\\" and quote != "'":
            if not quote:
                pieces.append(text[start:i])
                start = i + 2
            i += 2
            continue
        if not quote and c in "'\"":
            pieces.append(text[start:i])
            quote = c
        elif c == quote:
            quote, start = "", i + 1
        i += 1
    if not quote:
        pieces.append(text[start:])
    return pieces


def _shell_script(marked: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The script with variables in the placeholders' place."""
    free = sum(len(_MARK.findall(piece)) for piece in _outside_quotes(marked))
    if free < len(_MARK.findall(marked)):
        raise ValueError(
            "the command has a placeholder within quotes; write it outside them, as in "
            "--title={title} or 'a b'{title}: values are quoted already"
        )
    return (_MARK.sub(lambda mark: f'"${{{_variable(int(mark[1]))}}}"', marked),)


def _variable(i: int) -> str:
    return f"EBO_PARAMETER_{i}"


def _text(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    return repr(value) if type(value) is float else str(value)


# The process.


def _run(arguments: list[str], variables: Mapping[str, str], out: IO[bytes], err: IO[bytes]) -> int:
    """Run it to its end; its exit status, negative for a signal."""
    # A worker's group is killed as a whole, so there it stays in it. Elsewhere it has its own.
    alone = not inside()
    if not alone:
        adopt_orphans()  # so that what leaves the group is found
    before = children()
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, **variables} if variables else None,
            process_group=0 if alone else None,
        )
    except (OSError, ValueError) as error:  # not there, or a NUL in a value
        why = getattr(error, "strerror", None) or error
        raise CommandError(f"cannot run {arguments[0]!r}: {why}") from None
    if not alone:
        status = process.wait()
        _reap(before)
        return status
    _running.add(process.pid)
    try:
        return process.wait()
    except BaseException:
        _kill(process.pid)
        process.wait()
        raise
    finally:
        _running.discard(process.pid)


def _reap(before: set[int]) -> None:
    """Wait for what commands have left behind in this worker and has ended by now.

    before: the children before the command. In other threads somebody else may have started more,
        and waits for them.
    """
    if threading.active_count() == 1:
        _adopted.update(children() - before)
    for pid in list(_adopted):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except OSError:
            ended = pid
        if ended:
            _adopted.discard(pid)


def _kill(group: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)


@atexit.register
def _kill_running() -> None:
    """Commands that threads were waiting for."""
    for group in list(_running):
        _kill(group)


os.register_at_fork(after_in_child=_running.clear)
os.register_at_fork(after_in_child=_adopted.clear)


def _ended(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"killed by {signal_name(-status)}"


def _tail(file: IO[bytes], size: int) -> str:
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - size))
    return file.read(size).decode("utf-8", "replace")


def _first_of(read: Callable[[str], Any], texts: Iterable[str]) -> Any:
    """The first of them that can be read."""
    problem: Exception = ValueError("nothing to read")
    for text in texts:
        try:
            return read(text)
        except ValueError as error:
            problem = error
    raise problem
