-- A memory that does not grow: what is old becomes a summary in the store, what is new is shown as it is. The store is a cache:
-- without it the whole session is folded again.
defineCognet { name = "summary", version = "0.1.0", abi = "9", mode = { kind = "invocation" } }

-- Entries that are shown as they are.
local RECENT = 4

type Summary = { seq: number, text: string }

local key: string? = nil

-- A session's entries are numbered from 0, so each session has a summary of its own, named after its first entry.
local function key_of_session(): string
	local found = key or `summary-{kernel.store.session.get()[1].id}`
	key = found
	return found
end

local function line(entry: Entry): string
	return `{if entry.type == "stimulus:text" then "user" else "you"}: {entry.data.content}`
end

local function ask(system: string, user: string, signal: Signal): string
	local answer = ""
	local messages: { Message } = { { role = "system", content = system }, { role = "user", content = user } }
	for event in kernel.stream { messages = messages, format = "raw", signal = signal } do
		if event.type == "engine:done" then
			answer = event.text
		end
	end
	return answer
end

-- The summary, and the entries that are not in it.
local function recall(signal: Signal): (Summary, { Entry })
	local summary: Summary = kernel.store.get(key_of_session()) or { seq = -1, text = "" }
	local entries = kernel.store.session.get { after = summary.seq }
	if #entries > RECENT then
		local lines = {}
		for index = 1, #entries - RECENT do
			table.insert(lines, line(entries[index]))
		end
		local text = `{summary.text}\n{table.concat(lines, "\n")}`
		summary = {
			seq = entries[#entries - RECENT].time.seq,
			text = ask("Sum this up in a few lines. Keep names, numbers and promises.", text, signal),
		}
		kernel.store.set(key_of_session(), summary)
		entries = kernel.store.session.get { after = summary.seq }
	end
	return summary, entries
end

loop(function(wake)
	local summary, entries = recall(wake.signal)
	local lines = { `What was before: {summary.text}` }
	for _, entry in entries do
		table.insert(lines, line(entry))
	end
	kernel.output("cognet:output:text", { content = ask(kernel.base(), table.concat(lines, "\n"), wake.signal) })
	wake.stop()
end)
