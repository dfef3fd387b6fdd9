// Open the page in a headless Chromium and train there. Prints JSON.
// Usage: node train_browser.js FOLDER STEPS CHROMIUM [SCREENSHOT [webgpu]]; WebGPU is the software adapter's.

import { resolve } from "node:path";
import { chromium } from "playwright-core";
import { serve } from "./server.js";

const [folder, steps, executablePath, screenshot, provider = "wasm"] = process.argv.slice(2);
const server = await serve(resolve(folder));
const software = provider === "webgpu" ? ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"] : [];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", ...software] });
try {
  const page = await browser.newPage({ viewport: { width: 1080, height: 640 } });
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  await page.goto(`http://127.0.0.1:${server.address().port}/?steps=${steps}&provider=${provider}`);
  await page.waitForFunction(() => window.finished, null, { timeout: 300_000 });
  const finished = await page.evaluate(() => window.finished);
  const status = await page.textContent("#status");
  if (screenshot) await page.screenshot({ path: screenshot });
  console.log(JSON.stringify({ ...finished, status, complaints }));
} finally {
  await browser.close();
  server.close();
}
