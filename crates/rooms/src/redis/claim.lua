-- Claims a dead node, renews the claim or ends it. Returns the node's new score, which proves the
-- claim, or an empty string. The holder of the claim is the only cleaner; after its end another one
-- can claim the node.
-- KEYS: PREFIX:nodes.
-- ARGV: dead node, silence limit, duration of the claim (empty: the node is cleaned, remove it),
-- score of the caller's claim (empty: none), now (0: this server's clock). Times are in
-- milliseconds.
local now = tonumber(ARGV[5])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then
  return ''
end
local mine = ARGV[4] ~= '' and tonumber(score) == tonumber(ARGV[4])
if not mine and (ARGV[4] ~= '' or tonumber(score) > now - tonumber(ARGV[2])) then
  return ''
end
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return ARGV[4]
end
-- Scores never repeat, so that an expired claim differs from its successor.
local claimed = math.max(now - tonumber(ARGV[2]) + tonumber(ARGV[3]), tonumber(score) + 1)
redis.call('ZADD', KEYS[1], claimed, ARGV[1])
return string.format('%.0f', claimed)
