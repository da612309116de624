-- ARGV: client, session, accepted_at, number, node, keep.
local client, requester, keep = ARGV[11], requester_at(11), tonumber(ARGV[16])
local known = read(client)
local is_same = known and known.session == requester.session and known.node == requester.node
local place = is_same and place_of(client)
if place then
  redis.call('ZADD', place == 'm' and members or checkin, 'XX', now - stale + keep, client)
end
local named, list_after = { { client, requester.session } }, nil
