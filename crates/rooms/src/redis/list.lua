-- ARGV: last client of the previous page (empty: none).
local named, list_after = {}, ARGV[11]
