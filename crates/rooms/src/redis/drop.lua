-- ARGV: client, session, born, number, node, keep.
local client, who, keep = ARGV[10], who_at(10), tonumber(ARGV[15])
local known = read(client)
local place = known and known.session == who.session and known.node == who.node and place_of(client)
if place then
  redis.call('ZADD', place == 'm' and members or checkin, 'XX', now - stale + keep, client)
end
local asked_of, list_after = { { client, who.session } }, nil
