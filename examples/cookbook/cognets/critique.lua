-- A second opinion before anything runs: code that the reviewer does not pass goes back to its author with the reason.
defineCognet { name = "critique", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

local MAX_DRAFTS = 3

local function say(content: string)
	kernel.output("cognet:output:text", { content = content })
end

-- One request to its end: what was said, and the code that was written.
local function ask(messages: { Message }, format: "fenced" | "raw", signal: Signal): (string, string)
	local said: { string }, code: { string } = {}, {}
	for event in kernel.stream { messages = messages, format = format, signal = signal } do
		if event.type == "engine:text" then
			table.insert(said, event.content)
		elseif event.type == "engine:typescript" then
			table.insert(code, event.content)
		end
	end
	return table.concat(said, "\n"), table.concat(code, "\n")
end

local function review(task: string, code: string, signal: Signal): string
	local verdict = ask({
		{ role = "system", content = "You review TypeScript before it runs. Answer OK, or say in one line what is wrong." },
		{ role = "user", content = `The task: {task}\n\nThe code:\n{code}` },
	}, "raw", signal)
	return verdict
end

local function solve(task: string, signal: Signal)
	local messages: { Message } = {
		{ role = "system", content = `Solve the task with one ts code block. You have:\n{kernel.scope().dts}` },
		{ role = "user", content = task },
	}
	for draft = 1, MAX_DRAFTS do
		local said, code = ask(messages, "fenced", signal)
		if code == "" then
			return say(said)
		end
		local verdict = review(task, code, signal)
		kernel.emit("cognet:critique:verdict", { draft = draft, verdict = verdict })
		if string.match(verdict, "^%s*OK") then
			local result = kernel.run(code, { signal = signal })
			return say(if result.ok then tostring(result.value) else result.error.message)
		end
		messages[#messages + 1] = { role = "assistant", content = code }
		messages[#messages + 1] = { role = "user", content = `The reviewer says: {verdict}` }
	end
	say(`I gave up after {MAX_DRAFTS} drafts; nothing was run.`)
end

loop(function(wake)
	for _, stimulus in wake.stimuli do
		solve(stimulus.data.content, wake.signal)
	end
	wake.stop()
end)
