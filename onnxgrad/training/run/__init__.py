"""A run: its plan, loop and folder, position and checkpoints, callbacks, schedules, progress."""
