return defineCognet {
	name = "zero",
	version = "0.1.0",
	abi = "9",
	mode = { kind = "invocation" },
	maxTicksPerWake = 32,
}
