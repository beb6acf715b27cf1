// Speak what a language model writes, while it writes: llm "Tell me a story" | node speak.mjs
// Node 22 or newer; an older one needs --experimental-websocket.
import { spawn } from "node:child_process";

const url = (process.env.ANTIPHON_URL ?? "ws://127.0.0.1:8000") + "/v1/audio/speech/stream";
const command = process.env.PLAYER ?? "aplay -q -f S16_LE -r 24000 -c 1";
const player = spawn(command, { shell: true, stdio: ["pipe", "inherit", "inherit"] });

const socket = new WebSocket(url);
socket.binaryType = "arraybuffer";
const say = (message) => socket.send(JSON.stringify(message));

socket.onopen = async () => {
  say({ type: "session.config", sample_rate: 24000 });
  process.stdin.setEncoding("utf8");
  for await (const token of process.stdin) say({ type: "input.text", text: token });
  say({ type: "input.done" });
  say({ type: "session.close" });
};
socket.onmessage = ({ data }) => {
  if (typeof data !== "string") player.stdin.write(Buffer.from(data));
  else if (data.startsWith('{"type":"error"')) console.log(data);
};
socket.onclose = () => player.stdin.end();
