"""Pages of the service: programmes, the dashboard of one, the page of one person. Made on the server, as a report is;
nothing is fetched from elsewhere, and without JavaScript everything is there, too.

    /programmes                       what there is
    /programmes/NAME                  the dashboard
    /programmes/NAME/person?key=KEY   one person
    /pages/...                        sign-in, style sheet, the script that makes the page move"""

from .routing import routes

__all__ = ["routes"]
