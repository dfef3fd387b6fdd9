// The page: trains live, draws the loss, and asks the network about digits that it never trained on.
// ?files=FOLDER says where write_files.py wrote; ?steps=N trains that many steps at once and then sets window.finished;
// ?provider=webgpu trains on the graphics card, with the step that was written for it.

import { drawAnswers, drawCurve, drawDigits } from "./drawing.js";
import { Digits, TrainingStep, evaluate } from "./training_step.js";

const query = new URLSearchParams(location.search);
const folder = query.get("files") ?? "files";
const provider = query.get("provider") === "webgpu" ? "webgpu" : "wasm";
const ort = await import(provider === "webgpu" ? "onnxruntime-web/webgpu" : "onnxruntime-web");
const status = document.getElementById("status");
const button = document.getElementById("train");
const rate = document.getElementById("rate");
const losses = [];
let training = false;

async function read(name) {
  const answer = await fetch(`${folder}/${name}`);
  if (!answer.ok) throw new Error(`${folder}/${name} is missing. Write it: python models/web/write_files.py models/web/files`);
  return answer.arrayBuffer();
}

async function load() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = "/node_modules/onnxruntime-web/dist/";
  const digits = await Digits.load(read);
  if (provider === "webgpu" && !(await navigator.gpu?.requestAdapter())) throw new Error("this browser offers no WebGPU adapter.");
  const step = await TrainingStep.load(ort, read, provider === "webgpu" ? "step_webgpu.json" : "step.json", provider);
  const evaluation = await TrainingStep.load(ort, read, "evaluate.json", provider);
  return { digits, step, evaluation, loss: step.manifest.fetches[0].name };
}

/** Steps until the button is pressed again or `last` is reached; the page is drawn in between. */
async function train({ digits, step, evaluation, loss }, last) {
  training = true;
  button.textContent = "Stop";
  const begun = performance.now();
  const first = losses.length;
  while (training && losses.length < last) {
    step.setLearningRate(Number(rate.value));
    const results = await step.run(digits.feeds(ort, losses.length % digits.steps));
    losses.push(results[loss].data[0]);
    if (!Number.isFinite(losses.at(-1))) throw new Error("the loss is not a number any more. Reload, and lower the learning rate.");
    if (losses.length % 10 === 0 || losses.length === last) {
      const speed = ((losses.length - first) * 1000) / (performance.now() - begun);
      await show({ digits, step, evaluation }, speed);
    }
  }
  training = false;
  button.textContent = "Train";
}

async function show({ digits, step, evaluation }, speed) {
  const { accuracy, answers } = await evaluate(ort, digits, evaluation, step);
  drawCurve(document.getElementById("curve"), losses);
  drawAnswers(answers, digits.test_labels);
  const loss = losses.length ? `loss ${losses.at(-1).toFixed(4)}, ${speed.toFixed(0)} steps/s, ` : "";
  status.textContent = `step ${losses.length}, ${loss}held-out accuracy ${(100 * accuracy).toFixed(1)} %`;
  window.accuracy = accuracy;
  await new Promise(requestAnimationFrame);
}

const choice = document.getElementById("provider");
choice.value = provider;
choice.onchange = () => {
  query.set("provider", choice.value);
  location.search = query;
};

try {
  const loaded = await load();
  drawDigits(document.getElementById("digits"), loaded.digits, 40);
  await show(loaded, 0);
  button.disabled = false;
  button.onclick = () => {
    if (training) training = false;
    else train(loaded, losses.length + loaded.digits.steps).catch((error) => (status.textContent = error.message));
  };
  if (query.has("steps")) {
    await train(loaded, Number(query.get("steps")));
    window.finished = { losses, accuracy: window.accuracy };
  }
} catch (error) {
  status.textContent = error.message;
  window.finished = { error: error.message };
}
