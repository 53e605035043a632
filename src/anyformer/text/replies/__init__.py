"""What a model answers in a chat, read: what it says, how it reasoned, and which functions it calls."""

from anyformer.text.replies.parts import ReplyPart, ReplyReader, ToolCall, told
from anyformer.text.replies.reply_form import CALL_FORMATS, REASONING_FORMATS, ReplyForm, form_of

__all__ = ["CALL_FORMATS", "REASONING_FORMATS", "ReplyForm", "ReplyPart", "ReplyReader", "ToolCall", "form_of", "told"]
