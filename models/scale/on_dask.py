"""python on_dask.py FOLDER"""

import sys

from dask.distributed import Client, LocalCluster, wait
from worker import Worker, batches, difference

STEPS, WORKERS = 20, 2


class Member(Worker):
    def __init__(self, folder, number):
        super().__init__(f"{folder}/step.json")
        self.batches = iter(batches(folder, STEPS, number, WORKERS))

    def part(self):
        return self.gradients(next(self.batches))


def main(folder):
    with LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        homes = list(client.scheduler_info()["workers"])
        made = [client.submit(Member, folder, number, actor=True, workers=home) for number, home in enumerate(homes)]
        wait(made)
        actors = [future.result() for future in made]
        for step in range(STEPS):
            parts = [future.result() for future in [actor.part() for actor in actors]]
            losses = [future.result() for future in [actor.apply(parts) for actor in actors]]
            if step % 5 == 4:
                print(f"step {step + 1}: loss {losses[0]:.4f}, the same on all: {len(set(losses)) == 1}")
        weights = actors[0].weights().result()
    print(f"largest difference from one worker: {difference(weights, folder, STEPS):.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
