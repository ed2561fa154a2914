"""Ctrl-C while modules are imported, where an exception would be shown as a mistake of theirs."""

# What `signal` wraps at a cost: that module takes long enough to import for Ctrl-C to hit it.
import _signal as signal  # type: ignore[import-not-found]


class Interruptible:
    """Within it Ctrl-C ends the process by that signal, as any program that does not catch it.

    A shell sees 130, a script that runs it stops too, and nobody sees a traceback. Not where
    Ctrl-C is ignored, as under nohup, or handled by somebody else; nor in another thread, which
    may not say so.
    """

    def __enter__(self) -> None:
        self._changed = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                self._changed = True
            except ValueError:
                pass

    def __exit__(self, *exception: object) -> None:
        if self._changed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
