// The socket: one session, configured anew for each request, taken up again where it broke.
import { admitted, openSocket, refused } from "./access.js";
import { now, show } from "./dom.js";

let socket = null;

export function say(type, fields) { socket.send(JSON.stringify({ type, ...fields })); }

export const connected = () => Boolean(socket && socket.readyState === WebSocket.OPEN);

export function disconnect() { if (socket) socket.close(); }

// `ears`: `told` a message, `heard` samples, `lost` the connection.
export function connect(ears) {
  return new Promise((resolve, reject) => {
    const opened = socket = openSocket("/v1/audio/speech/stream");
    socket.binaryType = "arraybuffer";
    let answered = false;
    socket.onopen = () => { answered = true; resolve(); };
    socket.onerror = () => unanswered().then(reject);
    socket.onclose = () => { if (socket === opened) socket = null; if (answered) broken(ears); };
    socket.onmessage = ({ data }) => typeof data === "string" ? ears.told(JSON.parse(data)) : ears.heard(data);
  });
}

// A browser does not say why a handshake failed: the key is asked about by itself.
async function unanswered() {
  const fine = await admitted().catch(() => true);
  return new Error(fine ? "the gateway does not answer" : "the server refused the connection: it needs an API key");
}

function broken(ears) {
  if (!now.run) return;
  now.run.refused(new Error("the connection broke"));
  lost(ears);
}

// A broken connection is taken up where it was lost, at any gateway, if the whole text was sent.
export const resumable = () => Boolean(now.run.id && now.run.complete && !now.run.done);

async function lost(ears) {
  const mine = now.run;
  if (mine.done || mine.resuming) return;
  if (!resumable()) return ears.lost();
  mine.resuming = true;
  show("reconnecting", true);
  for (let attempt = 0; attempt < 40 && now.run === mine && !mine.done; attempt++) {
    if (await resumed(mine, ears)) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  if (now.run === mine && !mine.done) ears.lost();
}

async function resumed(mine, ears) {
  try {
    await connect(ears);
    await configured();
    say("session.resume", { request_id: mine.id, token: mine.token, from_sample: mine.samples });
  } catch {
    return false;
  }
  mine.resuming = false;
  show("speaking", true);
  return true;
}

export function configured() {
  return new Promise((resolve, reject) => {
    now.run.ready = resolve;
    now.run.refused = reject;
    say("session.config", { ...now.run.wish, resumable: true });
  });
}

export function explain(error) { if (error.code === "invalid_api_key") refused(error.message); }
