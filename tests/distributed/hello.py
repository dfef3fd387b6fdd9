"""What a launched rank says."""

import sys

from onnxgrad import distributed

if __name__ == "__main__":
    distributed.init()
    # In one write: where Python does not buffer, print makes two, and another rank's line may come between.
    sys.stdout.write(f"{distributed.rank()}/{distributed.world_size()}\n")
    sys.stdout.flush()
