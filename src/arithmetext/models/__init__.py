"""Models of the text. The GPT is in `gpt`, its Hugging Face form in `hugging_face`."""
