"""What people and machines read: tables, a page, a summary, launch scripts, run lines."""

from search.report.content import ReportContent
from search.report.files import write_report
from search.report.listener import ReportListener, RunLog

__all__ = ["ReportContent", "ReportListener", "RunLog", "write_report"]
