/** React hook for rooms. */

import { useCallback, useEffect, useRef, useSyncExternalStore } from 'react';

/** Number of mounted components by room. */
const usersByRoom = new WeakMap();
const ignore = () => {};

/**
 * Joins a room while the component is mounted, and renders it again after each change of the room.
 * `room.state` has the result.
 *
 * @template [Data=any] data that members show
 * @param {import('./client.js').Client<any>} client
 * @param {string} name
 * @param {{data?: Data}} [options] other data is shown at once
 * @returns {import('./room.js').Room<Data, any>}
 */
export function useRoom(client, name, { data } = {}) {
  const room = client.room(name);
  const subscribe = useCallback((changed) => room.on('change', changed), [room]);
  const revision = () => room.revision;
  useSyncExternalStore(subscribe, revision, revision);
  const shown = useRef(data);
  useEffect(() => {
    const join = () => room.state === 'out' && room.join({ data: shown.current }).catch(ignore);
    usersByRoom.set(room, (usersByRoom.get(room) ?? 0) + 1);
    join();
    // The client may start after its components, and again after its end.
    const remove = client.on('connecting', join);
    return () => {
      remove();
      usersByRoom.set(room, usersByRoom.get(room) - 1);
      if (usersByRoom.get(room) === 0) room.leave().catch(ignore);
    };
  }, [client, room]);
  useEffect(() => {
    if (JSON.stringify(data) !== JSON.stringify(shown.current)) room.update(data).catch(ignore);
    shown.current = data;
  }, [room, data]);
  return room;
}
