"""Sequential, LayerList, LayerDict, ParameterList: how they print, grow and are walked."""

import paddle
import paddle.nn as nn


class Tower(nn.Layer):
    def __init__(self, depth):
        super().__init__()
        self.stem = nn.Sequential(("conv", nn.Conv2D(3, 8, 3, padding=1)), ("norm", nn.BatchNorm2D(8)), ("act", nn.ReLU()))
        self.stages = nn.LayerList([nn.Conv2D(8, 8, 1) for _ in range(depth)])
        self.heads = nn.LayerDict({"box": nn.Linear(8, 4), "score": nn.Linear(8, 1)})
        self.scales = nn.ParameterList([paddle.create_parameter([1], "float32") for _ in range(2)])
        self.register_buffer("steps", paddle.zeros([1], dtype="int64"))
        self.register_buffer("scratch", paddle.ones([2]), persistable=False)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = x + stage(x)
        pooled = x.mean(axis=[2, 3])
        return {name: head(pooled) for name, head in self.heads.items()}


tower = Tower(2)
print(tower)
print({k: list(v.shape) for k, v in tower(paddle.ones([2, 3, 4, 4])).items()})
tower.stages.append(nn.Conv2D(8, 8, 1))
tower.stages.insert(0, nn.Identity())
print(len(tower.stages), tower.stages[-1])
tower.heads["mask"] = nn.Linear(8, 2)
print(list(tower.heads.keys()), "box" in tower.heads, len(tower.heads))
tower.heads.pop("score")
print(list(tower.heads))
print([name for name, _ in tower.named_parameters()])
print(list(tower.state_dict().keys()))
print([name for name, _ in tower.named_buffers()])
del tower.stages[0]
print(tower.stages[1:])
print(tower.stem[0].weight.shape, tower.stem.conv is tower.stem[0], len(tower.stem))
tower.eval()
print(all(not layer.training for layer in tower.sublayers(include_self=True)), len(tower.sublayers()))
print(tower.full_name(), tower.stem[0].full_name(), tower.stages[0].weight.name)
