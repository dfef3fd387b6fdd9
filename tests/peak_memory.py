"""What a script of its own process measures its memory with."""

__all__ = ["PEAK"]

PEAK = """
def peak():
    # Kilobytes. Not ru_maxrss, which starts from the process that started this one.
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

"""
