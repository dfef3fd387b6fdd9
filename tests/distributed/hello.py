"""What a launched rank says."""

from onnxgrad import distributed

if __name__ == "__main__":
    distributed.init()
    print(f"{distributed.rank()}/{distributed.world_size()}", flush=True)
