"""What to say of a batch that failed entirely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ebo.study.storage.trial import Evaluation, TrialState

SHOWN = 3  # messages
LENGTH = 200  # characters of each


def all_failed(evaluations: Sequence[Evaluation]) -> str:
    """The counts and the most frequent messages if none of the evaluations is done, else ""."""
    if not evaluations or any(evaluation.state is TrialState.DONE for evaluation in evaluations):
        return ""
    states = Counter(evaluation.state for evaluation in evaluations)
    messages = Counter(_last_line(evaluation.error) for evaluation in evaluations)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    shown = "; ".join(f"{count} x {text[:LENGTH]}" for text, count in messages.most_common(SHOWN))
    return f"all {len(evaluations)} evaluations of a batch failed ({counts}): {shown}"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
