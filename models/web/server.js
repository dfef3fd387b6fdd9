// A small web server for this folder. Usage: node server.js [FILES [PORT]]; FILES is what write_files.py wrote.

import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize, resolve } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".json": "application/json", ".wasm": "application/wasm" };

/** Serves the page, its packages, and `files` under /files; resolves to the listening server. */
export function serve(files, port = 0) {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const name = path === "/" ? "/index.html" : path;
    const full = name.startsWith("/files/") ? join(files, name.slice("/files".length)) : join(HERE, name);
    if (name.includes("..") || !extname(full) || !existsSync(full)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": TYPES[extname(full)] ?? "application/octet-stream" });
    createReadStream(full).pipe(response);
  });
  return new Promise((done) => server.listen(port, "127.0.0.1", () => done(server)));
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const server = await serve(resolve(argv[2] ?? join(HERE, "files")), Number(argv[3] ?? 8000));
  console.log(`open http://127.0.0.1:${server.address().port}/`);
}
