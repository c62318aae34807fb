// Serves dist/ with a made-up swarm, to look at the page without a run:
//   node dev/mock_server.mjs --port 8123 --peers 64 --stages 4 --rate 20 --rows 2000
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { parseArgs } from "node:util";
import { MockSwarm } from "./mock_swarm.mjs";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8123" },
    peers: { type: "string", default: "5" },
    stages: { type: "string", default: "4" },
    rate: { type: "string", default: "8" },
    rows: { type: "string", default: "600" },
    closed: { type: "boolean", default: false }, // as beyond this computer: nothing without the token
  },
});
const [peers, stages, rate, rows] = [values.peers, values.stages, values.rate, values.rows].map(Number);
const swarm = new MockSwarm({ peers, stages, rate, rows });

const kToken = "c0ffee";
const kFiles = {
  "/": ["index.html", "text/html; charset=utf-8"],
  "/assets/app.js": ["assets/app.js", "text/javascript; charset=utf-8"],
  "/assets/app.css": ["assets/app.css", "text/css; charset=utf-8"],
  "/favicon.svg": ["favicon.svg", "image/svg+xml"],
};
// The policy of the real server.
const kPolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const kCommands = {
  "/api/pause": ["training", "pausing"],
  "/api/resume": ["paused", "training"],
  "/api/checkpoint": ["training", "training"],
  "/api/stop": [null, "ended"],
};

function mayControl(request) {
  const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((protocol) => protocol.trim());
  return request.headers.authorization === `Bearer ${kToken}` || offered.includes(`rookery-token.${kToken}`);
}

function answer(response, status, body = "", headers = {}) {
  response.writeHead(status, { "Content-Security-Policy": kPolicy, "Cache-Control": "no-store", ...headers });
  response.end(body);
}

function answerPost(request, response) {
  if (!mayControl(request)) return answer(response, 401);
  const command = kCommands[request.url];
  if (!command) return answer(response, 404);
  const [from, to] = command;
  if (from && swarm.run.phase !== from) return answer(response, 409, JSON.stringify({ error: `The run is ${swarm.run.phase}.` }));
  if (request.url === "/api/checkpoint") swarm.note("checkpoint", "", `of step ${swarm.step}`);
  else swarm.setPhase(to);
  return answer(response, 202, "{}");
}

const server = createServer(async (request, response) => {
  if (request.method === "POST") return answerPost(request, response);
  const isRefused = values.closed && !mayControl(request);
  const [path] = request.url.split("?");
  const file = kFiles[path];
  if (isRefused && !file) return answer(response, 401);
  if (path === "/api/state") return answer(response, 200, JSON.stringify(swarm.state(mayControl(request))));
  if (!file) return answer(response, 404);
  return answer(response, isRefused && path === "/" ? 401 : 200, await readFile(new URL(`../dist/${file[0]}`, import.meta.url)), { "Content-Type": file[1] });
});

// A text message, as servers write it: in one frame, without a mask.
function frameOf(text) {
  const payload = Buffer.from(text);
  const size = payload.length;
  const head = Buffer.alloc(size < 126 ? 2 : size < 65536 ? 4 : 10);
  head[0] = 0x81;
  head[1] = size < 126 ? size : size < 65536 ? 126 : 127;
  if (head.length === 4) head.writeUInt16BE(size, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(size), 2);
  return Buffer.concat([head, payload]);
}

const viewers = new Set();

server.on("upgrade", (request, socket) => {
  if (values.closed && !mayControl(request)) return socket.end("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
  const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accepted = createHash("sha1").update(key).digest("base64");
  const fields = ["Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${accepted}`, "Sec-WebSocket-Protocol: rookery"];
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields.join("\r\n")}\r\n\r\n`);
  socket.write(frameOf(JSON.stringify(swarm.state(mayControl(request)))));
  viewers.add(socket);
  socket.resume();
  for (const event of ["close", "end", "error"]) socket.on(event, () => viewers.delete(socket));
});

let before = performance.now();
setInterval(() => {
  const now = performance.now();
  const update = swarm.advance((now - before) / 1000);
  before = now;
  for (const socket of viewers) socket.write(frameOf(JSON.stringify(update)));
}, 250);

server.listen(Number(values.port), "127.0.0.1", () => {
  console.log(`dashboard  http://127.0.0.1:${server.address().port}/#token=${kToken}`);
});
