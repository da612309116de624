/** The drawing of the way a signal takes, with the names of those it passes. */

const MAX_NAME = 18;

/**
 * @param {SVGElement} svg
 * @param {{me: string, myNode: string | null, connected: boolean, peer: string | null,
 *   peerNode: string | null, answered: boolean, direct: boolean}} path
 */
export function drawPath(svg, { me, myNode, connected, peer, peerNode, answered, direct }) {
  const names = {
    'path-me': me,
    'path-peer': peer ?? 'peer',
    'path-my-node': myNode ?? 'node',
    'path-peer-node': peerNode ?? 'node',
    'path-shared-node': myNode ?? 'node',
  };
  for (const [id, name] of Object.entries(names)) svg.querySelector(`#${id}`).textContent = shorten(name);
  svg.toggleAttribute('data-mine', connected);
  svg.toggleAttribute('data-theirs', answered);
  svg.toggleAttribute('data-direct', direct);
  svg.toggleAttribute('data-shared', myNode !== null && myNode === peerNode);
}

/** Ids differ at their ends as often as at their starts, so the middle goes. */
function shorten(name) {
  if (name.length <= MAX_NAME) return name;
  const half = Math.floor((MAX_NAME - 1) / 2);
  return `${name.slice(0, half)}…${name.slice(-half)}`;
}
