"""Chats as tokens: a template is rendered with what was said, in a sandbox, and what was said makes no special token."""

from anyformer.text.chat.choosing import named_template, templates
from anyformer.text.chat.conversation import Chat, Message, Turns
from anyformer.text.chat.tokens import answer_end, chat_tokens, completion_tokens, first_question, prompt_tokens

__all__ = [
    "Chat",
    "Message",
    "Turns",
    "answer_end",
    "chat_tokens",
    "completion_tokens",
    "first_question",
    "named_template",
    "prompt_tokens",
    "templates",
]
