"""Connected processes: started, listened to, ended, and what came of them."""
