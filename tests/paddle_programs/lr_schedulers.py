"""The rates of many schedules, step by step, and one within training."""

import paddle

lr = paddle.optimizer.lr
schedules = [
    lr.NoamDecay(d_model=64, warmup_steps=3, learning_rate=1.0),
    lr.PiecewiseDecay(boundaries=[2, 4], values=[0.1, 0.05, 0.01]),
    lr.NaturalExpDecay(0.5, gamma=0.1),
    lr.InverseTimeDecay(0.5, gamma=0.1),
    lr.PolynomialDecay(0.5, decay_steps=5, end_lr=0.01, power=2.0),
    lr.LinearWarmup(0.5, warmup_steps=3, start_lr=0.0, end_lr=0.5),
    lr.ExponentialDecay(0.5, gamma=0.9),
    lr.MultiStepDecay(0.5, milestones=[2, 5], gamma=0.8),
    lr.StepDecay(0.5, step_size=2, gamma=0.8),
    lr.LambdaDecay(0.5, lr_lambda=lambda x: 0.95**x),
    lr.CosineAnnealingDecay(0.5, T_max=6, eta_min=0.01),
    lr.MultiplicativeDecay(0.5, lr_lambda=lambda x: 0.95),
    lr.OneCycleLR(max_learning_rate=1.0, total_steps=8, divide_factor=10),
    lr.CyclicLR(base_learning_rate=0.1, max_learning_rate=0.5, step_size_up=3, step_size_down=2),
]
for scheduler in schedules:
    rates = []
    for _ in range(7):
        rates.append("%.5f" % scheduler())
        scheduler.step()
    print(type(scheduler).__name__, " ".join(rates))
plateau = lr.ReduceOnPlateau(0.5, factor=0.5, patience=1, cooldown=0)
for metric in [1.0, 0.9, 0.95, 0.96, 0.97, 0.8]:
    plateau.step(paddle.to_tensor(metric))
    print("%.4f" % plateau.last_lr, end=" ")
print()
warm = lr.LinearWarmup(lr.CosineAnnealingDecay(0.1, T_max=10), warmup_steps=2, start_lr=0.01, end_lr=0.1)
x = paddle.create_parameter([1], "float32", default_initializer=paddle.nn.initializer.Constant(1.0))
opt = paddle.optimizer.SGD(warm, parameters=[x])
for epoch in range(5):
    (x * x).sum().backward()
    opt.step()
    opt.clear_grad()
    warm.step()
    print("%d %.5f %.5f %.5f" % (epoch, opt.get_lr(), warm.last_lr, x.item()))
print(sorted(warm.state_dict()))
opt2 = paddle.optimizer.SGD(0.1, parameters=[x])
opt2.set_lr(0.25)
print(opt2.get_lr())
