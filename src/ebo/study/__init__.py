"""What lasts: studies in a file, their evaluation, and their reports."""

from ebo.study.storage.file import StudyError
from ebo.study.study import AllFailedError, Study

__all__ = ["AllFailedError", "Study", "StudyError"]
