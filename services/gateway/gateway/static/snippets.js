// The same request in code, with the text that was written.
import { key } from "./access.js";
import { $ } from "./dom.js";

let snippet = "curl";

const SNIPPETS = {
  curl: (body, key) => `curl -s ${location.origin}/v1/audio/speech -H 'content-type: application/json'${key ? ` -H 'authorization: Bearer ${key}'` : ""} -d '${JSON.stringify(body).replaceAll("'", "'\\''")}' -o speech.mp3`,
  python: (body, key) => `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="${location.origin}/v1", api_key="${key || "none"}")
speech = client.audio.speech.with_streaming_response.create(
    model=${JSON.stringify(body.model ?? "tts-1")}, voice=${JSON.stringify(body.voice)}, input=${JSON.stringify(body.input)}${body.speed ? `, speed=${body.speed}` : ""}
)
with speech as response:
    response.stream_to_file("speech.mp3")`,
  node: (body, key) => `// Node 20 or newer
import { writeFile } from "node:fs/promises";

const response = await fetch("${location.origin}/v1/audio/speech", {
  method: "POST",
  headers: { "content-type": "application/json"${key ? `, authorization: "Bearer ${key}"` : ""} },
  body: JSON.stringify(${JSON.stringify(body)}),
});
await writeFile("speech.mp3", response.body);`,
  socket: (body, key) => `const socket = new WebSocket("${location.origin.replace("http", "ws")}/v1/audio/speech/stream${key ? `?api_key=${encodeURIComponent(key)}` : ""}");
socket.binaryType = "arraybuffer";
const say = (message) => socket.send(JSON.stringify(message));
socket.onopen = () => {
  say({ type: "session.config", ${body.model ? `model: ${JSON.stringify(body.model)}, ` : ""}voice: ${JSON.stringify(body.voice)}${body.speed ? `, speed: ${body.speed}` : ""} });
  say({ type: "input.text", text: ${JSON.stringify(body.input)} });
  say({ type: "input.done" });
};
socket.onmessage = ({ data }) => console.log(typeof data === "string" ? data : \`\${data.byteLength} bytes of PCM\`);`,
};

export function hint() {
  const body = { input: $("text").value.trim() || "Hello there.", voice: $("voice").value || "default" };
  if ($("model").options.length > 1) body.model = $("model").value;
  const speed = Number($("speed-range").value);
  if (speed !== 1) body.speed = speed;
  // The key stays out of what is shown and copied.
  $("curl").textContent = SNIPPETS[snippet](body, key() ? "YOUR_API_KEY" : "");
  for (const button of document.querySelectorAll("[data-snippet]"))
    button.setAttribute("aria-pressed", String(button.dataset.snippet === snippet));
}

async function copy() {
  const text = $("curl").textContent;
  try {
    await navigator.clipboard.writeText(text);  // needs a secure page
  } catch {
    getSelection().selectAllChildren($("curl"));
    document.execCommand("copy");
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1200);
}

export function listen() {
  $("copy").onclick = copy;
  for (const button of document.querySelectorAll("[data-snippet]"))
    button.onclick = () => { snippet = button.dataset.snippet; hint(); };
}
