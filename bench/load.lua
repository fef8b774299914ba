-- What wrk sends: requests from a file (`load.ts` writes it), one at random each time. `#########` in a request
-- stands for a number that rises, so that no two are alike.
local requests, number = {}, 0

local function split(text)
  local pieces = {}
  for piece in (text .. '#########'):gmatch('(.-)#########') do pieces[#pieces + 1] = piece end
  return #pieces > 1 and pieces or text
end

function init(args)
  local file = assert(io.open(args[1], 'rb'))
  for request in file:read('*a'):gmatch('[^%z]+') do requests[#requests + 1] = split(request) end
  file:close()
  number = tonumber(args[2])
  math.randomseed(number)
end

function request()
  local chosen = requests[math.random(#requests)]
  if type(chosen) == 'string' then return chosen end
  number = number + 1
  return table.concat(chosen, string.format('%09d', number))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"refused":%d,"broken":%d,"p50":%f,"p99":%f}\n',
    summary.requests, summary.duration / 1e6, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
