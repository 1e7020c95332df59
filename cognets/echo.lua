defineCognet { name = "echo", version = "0.1.0", abi = "9" }
loop(function(wake)
	for _, s in wake.stimuli do if s.type == "stimulus:text" then kernel.output("cognet:output:text", { content = s.data.content }) end end
	wake.stop()
end)
