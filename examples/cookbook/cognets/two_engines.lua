-- Two engines: a small model sorts the questions, and only the hard ones go to the large one.
defineCognet { name = "two_engines", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

local SMALL, LARGE = "small", "large"

-- The whole answer of one model. `model` overrides the one in axon.toml for this request.
local function ask(model: string, system: string, user: string, signal: Signal): string
	local answer = ""
	local messages: { Message } = { { role = "system", content = system }, { role = "user", content = user } }
	for event in kernel.stream { model = model, messages = messages, format = "raw", signal = signal } do
		if event.type == "engine:done" then
			answer = event.text
		end
	end
	return answer
end

loop(function(wake)
	for _, stimulus in wake.stimuli do
		local question: string = stimulus.data.content
		local kind = ask(SMALL, "Answer with one word, easy or hard: how hard is this question?", question, wake.signal)
		local model = if string.find(string.lower(kind), "hard") then LARGE else SMALL
		local answer = ask(model, kernel.base(), question, wake.signal)
		kernel.output("cognet:output:text", { content = `{answer} ({model})` })
	end
	wake.stop()
end)
