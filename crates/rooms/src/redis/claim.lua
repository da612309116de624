-- KEYS: PREFIX:nodes. ARGV: dead node, how long a node may be silent, how long the claim holds (empty: the node is
-- done with, and forgotten), what the one who has it already knows
-- as its score (empty: it has none), now (0: this server's clock). Whoever gets the claim is the only cleaner: the score is the
-- proof, and once it runs out another may take over. Answers with the score, or nothing.
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
-- Never the same twice: a claim that ran out is told from the one that follows.
local claimed = math.max(now - tonumber(ARGV[2]) + tonumber(ARGV[3]), tonumber(score) + 1)
redis.call('ZADD', KEYS[1], claimed, ARGV[1])
return string.format('%.0f', claimed)
