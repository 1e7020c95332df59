-- A gate on approval: code is shown first and runs only after a yes. What waits for an answer is in the store, so that it
-- waits across restarts.
defineCognet { name = "approval", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

local function say(content: string)
	kernel.output("cognet:output:text", { content = content })
end

local function propose(task: string, signal: Signal)
	local said: { string }, code: { string } = {}, {}
	local messages: { Message } = {
		{ role = "system", content = `Solve the task with one ts code block. You have:\n{kernel.scope().dts}` },
		{ role = "user", content = task },
	}
	for event in kernel.stream { messages = messages, format = "fenced", signal = signal } do
		if event.type == "engine:text" then
			table.insert(said, event.content)
		elseif event.type == "engine:typescript" then
			table.insert(code, event.content)
		end
	end
	if #code == 0 then
		return say(table.concat(said, "\n"))
	end
	local source = table.concat(code, "\n")
	kernel.store.set("proposal", { code = source })
	say(`I would run this:\n\n{source}\n\nyes or no?`)
end

local function decide(answer: string, proposal: { code: string }, signal: Signal)
	-- Whatever comes of it, nothing is proposed any more: no block runs twice for one yes.
	kernel.store.set("proposal", false)
	if string.lower(answer) ~= "yes" then
		return say("Then not.")
	end
	local result = kernel.run(proposal.code, { signal = signal })
	say(if result.ok then tostring(result.value) else result.error.message)
end

loop(function(wake)
	for _, stimulus in wake.stimuli do
		local proposal = kernel.store.get("proposal")
		if proposal then
			decide(stimulus.data.content, proposal, wake.signal)
		else
			propose(stimulus.data.content, wake.signal)
		end
	end
	wake.stop()
end)
