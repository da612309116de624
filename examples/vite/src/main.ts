import { Call, Client, randomId } from 'signaling-mesh';

interface Data { name: string }
interface Message { text: string }

const url: string = import.meta.env.VITE_MESH ?? 'ws://127.0.0.1:8080';
const name = `guest-${randomId().slice(0, 4)}`;
const client = new Client(url, { clientId: randomId() });
const room = client.room<Data>(location.hash.slice(1) || 'call');
const call = new Call<Data, Message>(room);
const videoByKey = new Map<string, HTMLVideoElement>();

const find = <Element extends HTMLElement>(selector: string) => document.querySelector<Element>(selector)!;

function show(text: string) {
  const item = document.createElement('li');
  item.textContent = text;
  find('ul').append(item);
}

/** One video per member and label, such as `main` and `screen`. */
function drawVideos() {
  const keys = new Set<string>();
  for (const { id, streams, isAway } of call.peers) {
    for (const [label, stream] of Object.entries(streams)) {
      const key = `${id} ${label}`;
      keys.add(key);
      const video = videoByKey.get(key) ?? Object.assign(document.createElement('video'), { autoplay: true });
      video.className = isAway ? 'away' : '';
      if (video.srcObject !== stream) video.srcObject = stream;
      if (!videoByKey.has(key)) find('#videos').append(video);
      videoByKey.set(key, video);
    }
  }
  for (const [key, video] of videoByKey) {
    if (keys.has(key)) continue;
    video.remove();
    videoByKey.delete(key);
  }
}

client.on('state', ({ state, reason }) => {
  find('#state').textContent = `${state}, call ${room.name} ${reason?.message ?? ''}`;
});
call.on('change', drawVideos);
call.on('failure', ({ id, error }) => show(`${id}: ${error.message}`));
call.on('message', ({ from, data }) => show(`${room.member(from)?.data.name ?? from}: ${data.text}`));

find<HTMLFormElement>('form').onsubmit = (event) => {
  event.preventDefault();
  const text = find<HTMLInputElement>('input').value;
  call.send({ text });
  show(`you: ${text}`);
};
find('#screen').onclick = async () => {
  call.publish(await navigator.mediaDevices.getDisplayMedia({ audio: true }), 'screen');
};

await client.connect();
await room.join({ data: { name } });
const stream = await navigator.mediaDevices.getUserMedia({ audio: true, video: true });
find<HTMLVideoElement>('#own').srcObject = stream;
call.publish(stream);
