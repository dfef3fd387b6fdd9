"""python on_spark.py FOLDER"""

import base64
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession
from worker import Worker, batches, difference

STEPS, WORKERS = 20, 2
folder = sys.argv[1]


def predict(frames):
    """mapInPandas: one session for a partition"""
    session = onnxruntime.InferenceSession(f"{folder}/trained.onnx", providers=["CPUExecutionProvider"])
    for frame in frames:
        images = np.stack(frame["image"]).astype(np.float32).reshape(-1, 1, 8, 8)
        yield pd.DataFrame({"label": frame["label"], "digit": session.run(["logits"], {"image": images})[0].argmax(1)})


def train(_):
    """A barrier task: all of them run at once, and wait for each other's parts"""
    context = BarrierTaskContext.get()
    number, worker = context.partitionId(), Worker(f"{folder}/step.json")
    for batch in batches(folder, STEPS, number, WORKERS):
        mine = base64.b64encode(pickle.dumps(worker.gradients(batch))).decode()
        loss = worker.apply([pickle.loads(base64.b64decode(part)) for part in context.allGather(mine)])
    yield number, loss, worker.weights()


# Tasks import worker.py from here.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
os.environ["PYSPARK_PYTHON"] = sys.executable
settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
settings["spark.sql.execution.arrow.pyspark.enabled"] = "true"
spark = SparkSession.builder.master(f"local[{WORKERS}]").config(map=settings).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

found = spark.sparkContext.parallelize(range(WORKERS), WORKERS).barrier().mapPartitions(train).collect()
for number, loss, _ in found:
    print(f"task {number}: loss of step {STEPS} {loss:.4f}")
print(f"largest difference from one worker: {difference(found[0][2], folder, STEPS):.1e}")

model = onnx.load(f"{folder}/model.onnx")
for tensor in model.graph.initializer:
    if tensor.name in found[0][2]:
        tensor.CopyFrom(onnx.numpy_helper.from_array(found[0][2][tensor.name], tensor.name))
onnx.save(model, f"{folder}/trained.onnx")  # where all tasks can read it
data = np.load(f"{folder}/digits.npz")
table = pd.DataFrame({"image": [list(map(float, image.ravel())) for image in data["image"]], "label": data["label"]})
answers = spark.createDataFrame(table).repartition(WORKERS).mapInPandas(predict, "label long, digit long").toPandas()
print(f"right after training: {(answers['label'] == answers['digit']).sum()} of {len(answers)}")
spark.stop()
