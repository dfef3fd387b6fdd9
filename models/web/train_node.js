// Train in Node.js. Usage: node train_node.js FOLDER [STEPS]; FOLDER is what write_files.py wrote. Prints JSON.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-web";
import { Digits, TrainingStep, evaluate } from "./training_step.js";

const [folder, steps = "50"] = process.argv.slice(2);
const read = async (name) => {
  const bytes = await readFile(join(folder, name));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};

ort.env.wasm.numThreads = 1;
const digits = await Digits.load(read);
const step = await TrainingStep.load(ort, read, "step.json");
const evaluation = await TrainingStep.load(ort, read, "evaluate.json");
const loss = step.manifest.fetches[0].name;

const losses = [];
for (let i = 0; i < Number(steps); i++) {
  const results = await step.run(digits.feeds(ort, i));
  losses.push(results[loss].data[0]);
}
const { accuracy } = await evaluate(ort, digits, evaluation, step);
console.log(JSON.stringify({ losses, accuracy }));
