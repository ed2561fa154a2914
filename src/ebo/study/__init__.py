"""What lasts: studies and where they are kept, their evaluation, and their reports."""

from ebo.study.loop import AllFailedError
from ebo.study.storage.base import Storage, StudyError
from ebo.study.storage.trial import Evaluation, ObjectiveError, TrialState
from ebo.study.study import Study

__all__ = [
    "AllFailedError",
    "Evaluation",
    "ObjectiveError",
    "Storage",
    "Study",
    "StudyError",
    "TrialState",
]
