-- ARGV: client, session, accepted_at, number, node.
local client, requester = ARGV[11], requester_at(11)
local known = read(client)
if known and not outdates(known, requester) and not has_done(known, requester) then
  local place = place_of(client)
  known.session, known.accepted_at = requester.session, requester.accepted_at
  known.number = requester.number
  if place then
    gone(client, known, place, 2)
  else
    write(client, known)
  end
end
local named, list_after = { { client, requester.session } }, nil
