"""How the threads of onnxruntime wait for the next run: asleep, as two test processes share the cores.

By default they spin for some milliseconds after each run, which took more than half of the processor's time in tests of small models
that run often. What sessions compute, and on how many threads, is the same.
"""

import functools

import onnxruntime

_SPINS = "session.intra_op.allow_spinning"


def sleep_between_runs():
    """Let the threads of each session that this process opens from now on sleep while they wait."""
    start = onnxruntime.InferenceSession.__init__
    if hasattr(start, "__wrapped__"):
        return

    @functools.wraps(start)
    def opened(self, path_or_bytes, sess_options=None, *arguments, **options):
        sess_options = sess_options or onnxruntime.SessionOptions()
        try:
            sess_options.get_session_config_entry(_SPINS)
        except RuntimeError:  # a test says nothing of it
            sess_options.add_session_config_entry(_SPINS, "0")
        start(self, path_or_bytes, sess_options, *arguments, **options)

    onnxruntime.InferenceSession.__init__ = opened
