"""Work counted in calls of Python functions, which no other load of the machine changes."""

import sys


def count_calls(function):
    """How many functions of Python a call of this one calls, itself included."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    previous = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return count
