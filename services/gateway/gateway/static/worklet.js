"use strict";
// The player: a ring of samples that the audio thread empties. Runs in the AudioWorklet.
class Player extends AudioWorkletProcessor {
  constructor() {
    super();
    this.ring = new Float32Array(1 << 20);
    this.clear();
    this.port.onmessage = ({ data }) => {
      if (data === "clear") this.clear();
      else if (data === "end") this.ended = true;
      else this.push(data);
    };
  }
  clear() {
    this.read = this.write = this.underruns = this.tick = 0;
    this.ended = this.playing = this.told = false;
  }
  push(samples) {
    while (this.write - this.read + samples.length > this.ring.length) this.grow();
    const mask = this.ring.length - 1;
    for (let i = 0; i < samples.length; i++) this.ring[this.write++ & mask] = samples[i];
  }
  grow() {
    const larger = new Float32Array(this.ring.length * 2);
    const mask = this.ring.length - 1, wide = larger.length - 1;
    for (let i = this.read; i < this.write; i++) larger[i & wide] = this.ring[i & mask];
    this.ring = larger;
  }
  process(_, [[out]]) {
    const held = this.write - this.read;
    // After a gap a little more is gathered first: one pause is heard better than ten.
    if (!this.playing && held > 0 && (held >= sampleRate * (this.underruns ? 0.15 : 0.03) || this.ended)) this.playing = true;
    if (this.playing) {
      const count = Math.min(out.length, held), mask = this.ring.length - 1;
      for (let i = 0; i < count; i++) out[i] = this.ring[this.read++ & mask];
      if (count < out.length && !this.ended) { this.underruns++; this.playing = false; }
    }
    const over = this.ended && this.read === this.write;
    if (++this.tick % 4 === 0 || (over && !this.told)) {
      this.told = over;
      this.port.postMessage({ played: this.read, received: this.write, underruns: this.underruns, over });
    }
    return true;
  }
}
registerProcessor("player", Player);

// The microphone, block by block.
class Recorder extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice());
    return true;
  }
}
registerProcessor("recorder", Recorder);
