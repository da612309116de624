/**
 * A member of a call in a page. It publishes tracks of known kinds and sizes, and reports those
 * that it receives. `calls.rs` loads it.
 */
(() => {
  if (window.enter) return;
  const FRAME_MS = 60;
  /** Items by label: `{item, track}`, `item` is `[width, height]` or `audio`. */
  const published = new Map();
  /** A video element for each received track. */
  const videoByTrack = new Map();
  let audio;

  /** Returns a moving picture. Browsers send small ones in their size on a slow machine, too. */
  function picture(width, height) {
    const canvas = Object.assign(document.createElement('canvas'), { width, height });
    const context = canvas.getContext('2d');
    const [track] = canvas.captureStream(15).getTracks();
    let hue = 0;
    const paint = () => {
      hue += 9;
      context.fillStyle = `hsl(${hue} 80% 50%)`;
      context.fillRect(0, 0, width, height);
      if (track.readyState === 'live') setTimeout(paint, FRAME_MS);
    };
    paint();
    return track;
  }

  function sound() {
    audio ??= new AudioContext();
    const tone = audio.createOscillator();
    const output = audio.createMediaStreamDestination();
    tone.connect(output);
    tone.start();
    return output.stream.getTracks()[0];
  }

  /** Publishes a label with these tracks and keeps its tracks of the same kind and size. */
  window.publish = (label, ...items) => {
    const former = [...(published.get(label) ?? [])];
    const entries = items.map((item) => {
      const at = former.findIndex((entry) => String(entry.item) === String(item));
      if (at >= 0) return former.splice(at, 1)[0];
      return { item, track: item === 'audio' ? sound() : picture(...item) };
    });
    for (const { track } of former) track.stop();
    if (items.length > 0) {
      published.set(label, entries);
      call.publish(new MediaStream(entries.map(({ track }) => track)), label);
    } else {
      published.delete(label);
      call.unpublish(label);
    }
  };

  /** Publishes `count` random changes, with pauses of up to 60 ms. */
  window.publishAtRandom = async (seed, count) => {
    let state = seed;
    const random = () => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return state / 2_147_483_648;
    };
    for (let change = 0; change < count; change += 1) {
      const label = ['main', 'screen', 'extra'][Math.floor(random() * 3)];
      publish(label, ...['audio', [120, 90], [160, 120]].filter(() => random() < 0.45));
      if (random() < 0.7) await new Promise((resolve) => setTimeout(resolve, random() * 60));
    }
  };

  const summary = (entries) => {
    const sorted = entries.map(([label, items]) => [label, items.map(String).sort()]);
    return JSON.stringify(Object.fromEntries(sorted.sort(([one], [other]) => (one < other ? -1 : 1))));
  };

  /** Kinds and sizes of the own tracks by label. */
  window.sends = () => summary([...published].map(([label, entries]) => [label, entries.map(({ item }) => item)]));

  window.peer = (id) => window.call?.peers.find((other) => other.id === id);

  /** Kinds and sizes of decoded pictures by label, from a member. */
  window.gets = (id) => {
    const describe = (track) => (track.kind === 'audio' ? 'audio' : sizeOf(track));
    const streams = Object.entries(peer(id)?.streams ?? {});
    return summary(streams.map(([label, stream]) => [label, stream.getTracks().map(describe)]));
  };

  function sizeOf(track) {
    if (!videoByTrack.has(track)) {
      const video = Object.assign(document.createElement('video'), { autoplay: true, muted: true });
      video.srcObject = new MediaStream([track]);
      document.body.append(video);
      videoByTrack.set(track, video);
    }
    const { videoWidth, videoHeight } = videoByTrack.get(track);
    return [videoWidth, videoHeight];
  }

  /** Expiry of the TURN credentials that a connection has, in seconds from now. */
  window.secondsLeft = (connection) => {
    const [{ username }] = connection.getConfiguration().iceServers;
    return Number(username.split(':')[0]) - Date.now() / 1_000;
  };

  window.connectionsMade = 0;
  /** Bytes that each own description has more. */
  window.extraBytes = 0;
  const Connection = window.RTCPeerConnection;
  window.RTCPeerConnection = class extends Connection {
    constructor(...given) {
      super(...given);
      window.connectionsMade += 1;
    }

    get localDescription() {
      const description = super.localDescription;
      if (!description || extraBytes === 0) return description;
      return { type: description.type, sdp: `${description.sdp}a=x-extra:${'x'.repeat(extraBytes)}\r\n` };
    }
  };

  /** While true, signals of this page wait for `release`. */
  window.isHolding = false;
  const held = [];
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    send(text) {
      if (isHolding && text.startsWith('{"type":"signal"')) held.push(() => super.send(text));
      else super.send(text);
    }
  };
  window.release = () => {
    window.isHolding = false;
    for (const send of held.splice(0)) send();
  };

  /** Joins the room with a call, which has these tracks from its start. */
  window.enter = async (clientId, ...items) => {
    const { Client, Call } = await import('/signaling-mesh.mjs');
    window.client = new Client(location.origin, { clientId });
    window.signals = [];
    client.on('signal', (signal) => signals.push(signal));
    const room = client.room('den');
    window.failures = [];
    window.messages = [];
    window.call = new Call(room);
    call.on('failure', ({ id, error }) => failures.push([id, error.code ?? error.message]));
    call.on('message', ({ from, data }) => messages.push([from, data]));
    if (items.length > 0) publish('main', ...items);
    client.connect();
    await room.join({ data: { name: clientId } });
  };
})();
