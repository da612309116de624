-- ARGV: client, session, born, number, node.
local client, who = ARGV[10], who_at(10)
local known = read(client)
if known and not outdates(known, who) and not has_done(known, who) then
  local place = place_of(client)
  known.session, known.born, known.number = who.session, who.born, who.number
  if place then
    gone(client, known, place, 2)
  else
    write(client, known)
  end
end
local asked_of, list_after = { { client, who.session } }, nil
