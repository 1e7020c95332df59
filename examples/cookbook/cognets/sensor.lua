-- A continuous sensor loop: it looks at a file on every beat, says what has changed, and warns. Words change the limit.
defineCognet { name = "sensor", version = "0.1.0", abi = "9", mode = { kind = "continuous" } }

local limit = 30
local last: number? = nil

loop(function(wake)
	for _, stimulus in wake.stimuli do
		local asked = tonumber(string.match(stimulus.data.content, "^limit (%d+)$"))
		if asked then
			limit = asked
			last = nil
		end
	end

	local result = kernel.run('Number(await fs.read("reading.txt"))', { signal = wake.signal })
	if not result.ok then
		kernel.emit("cognet:log:warning", { value = result.error.message })
	elseif result.value ~= last then
		local reading: number = result.value
		last = reading
		kernel.output("cognet:output:field", { reading = { value = reading, unit = "°C" } })
		if reading > limit then
			kernel.output("cognet:output:text", { content = `Too warm: {reading} °C, the limit is {limit}.` })
		end
	end
	wake.stop()
end)
