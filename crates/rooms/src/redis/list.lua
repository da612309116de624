-- ARGV: last client of the previous page (empty: none).
local asked_of, list_after = {}, ARGV[10]
