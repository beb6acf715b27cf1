"""GLM-4-Voice: a language model that hears speech, and answers in words and speech by turns."""
