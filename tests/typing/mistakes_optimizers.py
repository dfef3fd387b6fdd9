"""Mistakes in the use of optimizers and their like, each of which a type checker finds on its line."""

import onnxgrad as paddle
from onnxgrad import distributed, static
from onnxgrad.nn import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue, initializer
from onnxgrad.optimizer import Adam, lr
from onnxgrad.regularizer import L2Decay

w = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
adam = Adam(parameters=[w])
schedule = lr.StepDecay(0.1, step_size=2)

# Optimizers
Adam(no_such=3)  # error
Adam(lr=0.1)  # error
Adam("0.1")  # error
Adam(0.1, beta1="0.9")  # error
Adam(0.1, parameters=w)  # error
Adam(0.1, parameters={"params": [w]})  # error
Adam(0.1, parameters=[3])  # error
Adam(0.1, grad_clip=1.0)  # error
Adam(0.1, weight_decay="l2")  # error
Adam(0.1, weight_decay=ClipGradByNorm(1.0))  # error
Adam(0.1, lazy_mode="no")  # error
adam.mimimize(w)  # error
adam.learning_rate  # error
adam.set_lr("0.1")  # error
adam.set_lr_scheduler(0.1)  # error
adam.step(w)  # error
rate: str = adam.get_lr()  # error
paddle.optimizer.AdamW(0.1, weight_decay=L2Decay(0.1))  # error
paddle.optimizer.AdamW(0.1, apply_decay_param_fun=True)  # error
paddle.optimizer.Momentum(0.1, use_nestorov=True)  # error
paddle.optimizer.Momentum(0.1, momentum=[0.9])  # error
paddle.optimizer.RMSProp()  # error
paddle.optimizer.Adagrad()  # error
paddle.optimizer.Rprop(0.1, etas=0.5)  # error
paddle.optimizer.ASGD(0.1, batch_num=2.5)  # error
paddle.optimizer.Lamb(0.1, weight_decay=0.1)  # error
paddle.optimizer.LBFGS(line_search_fn="wolfe")  # error
paddle.optimizer.LBFGS(grad_clip=ClipGradByNorm(1.0))  # error
paddle.optimizer.Adams(0.1)  # error

# Schedules
lr.StepDecay()  # error
lr.StepDecay(0.1, step_size="2")  # error
lr.StepDecay("0.1", 2)  # error
lr.StepDecay(0.1, 2, gama=0.5)  # error
lr.PiecewiseDecay(3, 0.1)  # error
lr.LambdaDecay(0.1, 0.9)  # error
lr.LambdaDecay(0.1, lambda step, epoch: 0.9)  # error
lr.LinearWarmup(0.1, 10)  # error
lr.ReduceOnPlateau(0.1, mode="least")  # error
lr.ReduceOnPlateau(0.1).step()  # error
lr.OneCycleLR(0.1, 10, anneal_strategy="cosine")  # error
lr.CyclicLR(0.1, 1.0, 4, mode="triangle")  # error
lr.CosineAnnealingDecay(0.1, t_max=3)  # error
lr.CosineDecay(0.1, 3)  # error
schedule.setp()  # error
schedule.last_rate  # error
schedule.step("next")  # error
text: str = schedule()  # error

# Initial values, penalties, clipping
initializer.Constant("0")  # error
initializer.Normal(sigma=0.1)  # error
initializer.Uniform(low="0")  # error
initializer.KaimingNormal(nonlinearity="rellu")  # error
initializer.XavierUniform(gain="relu")  # error
initializer.Orthogonal(name=3)  # error
initializer.calculate_gain("softplus")  # error
initializer.Constant(0.5).vlaue  # error
paddle.ParamAttr(trainable="no")  # error
paddle.ParamAttr(initializer=0.5)  # error
paddle.ParamAttr(regularizer=0.1)  # error
paddle.ParamAttr(lr=0.1)  # error
L2Decay("0.1")  # error
L2Decay(coef=0.1)  # error
ClipGradByValue()  # error
ClipGradByNorm("1")  # error
ClipGradByGlobalNorm(1.0, group=3)  # error

# Metrics, places, strategies, averages, mixed precision, batches
paddle.metric.Accuracy(topk=5)  # error
paddle.metric.Auc(curve="PR")  # error
paddle.metric.Precision(3)  # error
static.CUDAPlace("0")  # error
static.CUDAPlace(0, tf32=True)  # error
static.CUDAPlace(0, cudnn_conv_algo_search="FAST")  # error
static.Executor(0)  # error
static.Executor(memory="small")  # error
static.CompiledProgram("main")  # error
static.BuildStrategy().fuse_all_optimiser_ops = True  # error
static.ExponentialMovingAverage("0.99")  # error
static.ExponentialMovingAverage(0.99).updat()  # error
distributed.Strategy(compress="int8")  # error
distributed.Strategy(sharding=3)  # error
distributed.Strategy(buckets=2)  # error
paddle.amp.GradScaler(init_loss_scale=8.0)  # error
paddle.amp.GradScaler(incr_ratio="2")  # error
paddle.amp.GradScaler().step(0.1)  # error
paddle.amp.auto_cast(level="O3")  # error
paddle.amp.auto_cast(dtype="float8")  # error
static.amp.decorate(adam, level="O9")  # error
static.amp.decorate(adam).get_rate()  # error
paddle.io.DataLoader()  # error
paddle.io.DataLoader([1, 2], batchsize=2)  # error
paddle.io.DataLoader([1, 2], batch_size="2")  # error
paddle.io.BatchSampler([1, 2], batch_size="2")  # error
paddle.io.RandomSampler(3)  # error
paddle.io.Subset(3, [1])  # error
paddle.io.TensorDataset(3)  # error
paddle.amp.decorate(adam, level="O3")  # error
paddle.device.set_devise("cpu")  # error
