"""python on_ray.py FOLDER"""

import sys

import ray
from worker import Worker, batches, difference

STEPS, WORKERS = 20, 2
folder = sys.argv[1]


@ray.remote(num_cpus=1)
class Actor(Worker):
    def __init__(self, number):
        super().__init__(f"{folder}/step.json")
        self.batches = iter(batches(folder, STEPS, number, WORKERS))

    def part(self):
        return self.gradients(next(self.batches))

    def step(self, *parts):
        return self.apply(list(parts))


ray.init(num_cpus=WORKERS, include_dashboard=False)
actors = [Actor.remote(number) for number in range(WORKERS)]
for step in range(STEPS):
    parts = [actor.part.remote() for actor in actors]  # references: the arrays stay in Ray's shared memory
    losses = ray.get([actor.step.remote(*parts) for actor in actors])
    if step % 5 == 4:
        print(f"step {step + 1}: loss {losses[0]:.4f}, the same on all: {len(set(losses)) == 1}")
weights = ray.get(actors[0].weights.remote())
print(f"largest difference from one worker: {difference(weights, folder, STEPS):.1e}")
ray.shutdown()
